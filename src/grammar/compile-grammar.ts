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
import { choice, EMPTY, type Expression, optional, repeat, sequence, set, text } from "./expression.js";
import { JsonRules } from "./schema/json-rules.js";
import { GRAMMAR_LIMITS, grammarInvalid, grammarLimit } from "./limits.js";
import { GrammarRules } from "./rules.js";
import { formValue, markOf } from "./schema/form-value.js";
import { rawString } from "./schema/raw-string.js";
import { schemaExpression } from "./schema/schema-grammar.js";
import { regexWithLooks } from "./schema/string-language.js";

/** Compiles a grammar; throws a GrammarError if it is invalid or exceeds a limit. */
export function compileGrammar(spec: GrammarSpec): CompiledGrammar {
  return new CompiledGrammar(new Automaton(grammarNetwork(spec)));
}

/** Parses a grammar and compiles it to a network. */
export function grammarNetwork(spec: GrammarSpec): Network {
  try {
    const { rules, root } = read(spec);
    return buildNetwork(rules.bodies, root, { place: spec.kind });
  } catch (error) {
    // The grammar is nested too deeply for the stack.
    if (error instanceof RangeError)
      throw new GrammarError("GRAMMAR_LIMIT", "[grammar] expected less nesting than this; make it flatter", {
        cause: error,
      });
    throw error;
  }
}

/** The rules of a grammar, and what they start with. */
interface ReadGrammar {
  readonly rules: GrammarRules;
  readonly root: Expression;
}

function read(spec: GrammarSpec): ReadGrammar {
  switch (spec.kind) {
    case "json":
      return jsonGrammar((json) => json.object);
    case "schema":
      return jsonGrammar((json) => schemaExpression(json, spec.schema, "schema"));
    case "forms":
      return jsonGrammar((json) => formsExpression(json, spec));
    case "thought": {
      if (spec.rest?.kind === "thought") throw grammarInvalid("thought", "expected one thought, found another in it");
      const { rules, root } = read(spec.rest);
      return { rules, root: sequence(thoughtExpression(spec), root) };
    }
    case "regex": {
      if (typeof spec.pattern !== "string")
        throw grammarInvalid("regex", "expected a regular expression, found something else");
      const root = regexWithLooks(spec.pattern, { place: "regex", characters: set, around: EMPTY });
      return { rules: new GrammarRules(), root };
    }
    case "grammar": {
      if (typeof spec.text !== "string")
        throw grammarInvalid("grammar", "expected the text of a grammar, found something else");
      return ebnfGrammar(spec.text, "grammar");
    }
    default:
      spec satisfies never;
      throw grammarInvalid("grammar", "expected a kind of grammar that is known, found another");
  }
}

function jsonGrammar(make: (json: JsonRules) => Expression): ReadGrammar {
  const rules = new GrammarRules();
  return { rules, root: make(new JsonRules(rules)) };
}

/** Models write line breaks behind a thought. */
const BEHIND_THOUGHT = choice(EMPTY, text("\n"), text("\n\n"));

function thoughtExpression({ open, close }: GrammarSpec & { readonly kind: "thought" }): Expression {
  const end = literalText(close, "thought");
  const words = rawString(markOf(end), { patterns: [], limits: { min: 0, max: Infinity } }, "thought");
  const rest = sequence(words, ...end, BEHIND_THOUGHT);
  return open === undefined ? rest : optional(sequence(...literalText(open, "thought"), rest));
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
