// Compiles the specification of a grammar to an automaton. The work is bounded by limits.ts and, if these allow too
// much, by the thread that does it.

import { GrammarError } from "../errors.js";
import { Automaton } from "./automaton/automaton.js";
import { CompiledGrammar } from "./automaton/compiled-grammar.js";
import type { Network } from "./automaton/network.js";
import { buildNetwork } from "./automaton/network-builder.js";
import { ebnfGrammar } from "./notation/gbnf.js";
import { literalCharacters, formText } from "./form-text.js";
import type { FormSeries, FormText, GrammarSpec, SchemaForm } from "./grammar-spec.js";
import { choice, EMPTY, type Expression, repeat, sequence, set } from "./expression.js";
import { JsonRules } from "./schema/json-rules.js";
import { GRAMMAR_LIMITS, grammarInvalid, grammarLimit } from "./limits.js";
import { GrammarRules } from "./rules.js";
import { formValue } from "./schema/form-value.js";
import { schemaExpression } from "./schema/schema-grammar.js";
import { regexWithLooks } from "./schema/string-language.js";

/** Compiles a grammar; throws a GrammarError if it is invalid or exceeds a limit. */
export function compileGrammar(spec: GrammarSpec): CompiledGrammar {
  return new CompiledGrammar(new Automaton(grammarNetwork(spec)));
}

/** Parses a grammar and compiles it to a network. */
export function grammarNetwork(spec: GrammarSpec): Network {
  try {
    return read(spec);
  } catch (error) {
    // The grammar is nested too deeply for the stack.
    if (error instanceof RangeError)
      throw new GrammarError("GRAMMAR_LIMIT", "[grammar] expected less nesting than this; make it flatter", {
        cause: error,
      });
    throw error;
  }
}

function read(spec: GrammarSpec): Network {
  switch (spec.kind) {
    case "json":
      return jsonNetwork("json", (json) => json.object);
    case "schema":
      return jsonNetwork("schema", (json) => schemaExpression(json, spec.schema, "schema"));
    case "forms":
      return jsonNetwork("forms", (json) => formsExpression(json, spec));
    case "regex": {
      if (typeof spec.pattern !== "string")
        throw grammarInvalid("regex", "expected a regular expression, found something else");
      const expression = regexWithLooks(spec.pattern, { place: "regex", characters: set, around: EMPTY });
      return buildNetwork(new Map(), expression, { place: "regex" });
    }
    case "grammar": {
      if (typeof spec.text !== "string")
        throw grammarInvalid("grammar", "expected the text of a grammar, found something else");
      const { rules, root } = ebnfGrammar(spec.text, "grammar");
      return buildNetwork(rules.bodies, root, { place: "grammar" });
    }
    default:
      spec satisfies never;
      throw grammarInvalid("grammar", "expected a kind of grammar that is known, found another");
  }
}

function jsonNetwork(place: string, make: (json: JsonRules) => Expression): Network {
  const rules = new GrammarRules();
  const root = make(new JsonRules(rules));
  return buildNetwork(rules.bodies, root, { place });
}

function formsExpression(json: JsonRules, { forms, series }: GrammarSpec & { readonly kind: "forms" }): Expression {
  const alone = series === undefined ? checkedForms(forms) : forms;
  const options = alone.map((form, index) => formExpression(json, form, `forms[${index}]`));
  return series === undefined ? choice(...options) : choice(...options, seriesExpression(json, series));
}

function seriesExpression(json: JsonRules, { open, forms, separator, close }: FormSeries): Expression {
  const [before, between, behind] = [open, separator, close].map((part) => literalText(part, "series"));
  const options = checkedForms(forms).map((form, index) => formExpression(json, form, `series[${index}]`));
  // A rule, so that the schemas are compiled once.
  const form = json.rules.add("form", choice(...options));
  const further = repeat(sequence(...between, form), 0, GRAMMAR_LIMITS.seriesForms - 1);
  return sequence(...before, form, further, ...behind);
}

function literalText(given: FormText, place: string): readonly Expression[] {
  const parts = formText(given, place);
  if (literalCharacters(parts) > GRAMMAR_LIMITS.literalCharacters)
    throw grammarLimit(place, "literalCharacters", "text around forms, in characters,");
  return parts;
}

function checkedForms(forms: readonly SchemaForm[]): readonly SchemaForm[] {
  if (!Array.isArray(forms) || forms.length === 0)
    throw grammarInvalid("forms", "expected a list of forms, found none");
  if (forms.length > GRAMMAR_LIMITS.forms) throw grammarLimit("forms", "forms", "forms");
  return forms;
}

function formExpression(json: JsonRules, { prefix, schema, suffix, notation }: SchemaForm, place: string): Expression {
  const [before, behind] = [formText(prefix, place), formText(suffix, place)];
  if (literalCharacters(before) + literalCharacters(behind) > GRAMMAR_LIMITS.literalCharacters)
    throw grammarLimit(place, "literalCharacters", "text around a schema, in characters,");
  return sequence(...before, formValue(json, schema, notation, `${place}.schema`), ...behind);
}
