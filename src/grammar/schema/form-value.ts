// The value of a form, in the notation that the model's calling convention has for arguments.

import { type Expression, text } from "../expression.js";
import { literalCharacters, formText } from "../form-text.js";
import type { ValueNotation } from "../grammar-spec.js";
import { GRAMMAR_LIMITS, grammarInvalid, grammarLimit } from "../limits.js";
import type { FieldStyle } from "./fields.js";
import { type JsonRules, mapDialect, PYTHON_DIALECT } from "./json-rules.js";
import { rawString } from "./raw-string.js";
import { schemaExpression, schemaFields } from "./schema-grammar.js";

const PYTHON_FIELDS: FieldStyle = {
  open: [],
  text: undefined,
  json: [text("=")],
  close: [],
  mark: undefined,
  separator: ", ",
};

/** The values of a schema in a notation; JSON if there is none. */
export function formValue(
  json: JsonRules,
  schema: unknown,
  notation: ValueNotation | undefined,
  place: string,
): Expression {
  switch (notation?.kind) {
    case undefined:
      return schemaExpression(json, schema, place);
    case "python":
      return schemaFields(
        notation.words === "json" ? json : json.inDialect(PYTHON_DIALECT),
        schema,
        PYTHON_FIELDS,
        place,
      );
    case "fields": {
      const close = literal(notation.close, place);
      const style: FieldStyle = {
        open: literal(notation.open, place),
        text: literal(notation.text, place),
        json: literal(notation.json, place),
        close,
        mark: markOf(close),
        separator: "",
      };
      return schemaFields(json, schema, style, place);
    }
    case "map": {
      const quote = literal(notation.quote, place);
      const mark = markOf(quote);
      const raw = { quote, inside: (demands: Parameters<typeof rawString>[1]) => rawString(mark, demands, place) };
      return schemaExpression(json.inDialect(mapDialect(raw)), schema, place);
    }
    default:
      notation satisfies never;
      throw grammarInvalid(place, "expected a notation that is known, found another");
  }
}

function literal(given: Parameters<typeof formText>[0], place: string): readonly Expression[] {
  const parts = formText(given, place);
  if (literalCharacters(parts) > GRAMMAR_LIMITS.literalCharacters)
    throw grammarLimit(place, "literalCharacters", "text around a value, in characters,");
  return parts;
}

/** The text that ends a string; undefined if a control token comes first, apart from white space. */
export function markOf(close: readonly Expression[]): string | undefined {
  const first = close.find((part) => part.kind !== "text" || part.text.trim() !== "");
  return first?.kind === "text" ? first.text.trim() : undefined;
}
