// JSON-Schema-Test-Suite: no instance that a schema forbids is accepted, but those that docs/structured-output.md names.
// Instances are written as JSON.stringify writes them, with properties in the schema's order.

import { describe, expect, test } from "vitest";
import type { GrammarError } from "../../src/errors.js";
import { compileGrammar } from "../../src/grammar/compile-grammar.js";
import { recognizes } from "../../src/grammar/automaton/recognizer.js";
import { type SuiteCase, suiteCases } from "./corpus/test-suite.js";

/** Case and instance, with the rule of the documents. None is known. */
const NAMED: Readonly<Record<string, string>> = {};

interface Outcome {
  refusedSchemas: number;
  acceptedSchemas: number;
  validAccepted: number;
  validRefused: number;
  readonly invalidAccepted: string[];
}

/** Mentioned properties first, in their order, as far down as `properties` reach. */
function ordered(value: unknown, schema: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => ordered(item, undefined));
  if (typeof value !== "object" || value === null) return value;
  const declared =
    typeof schema === "object" && schema !== null
      ? ((schema as { readonly properties?: Readonly<Record<string, unknown>> }).properties ?? {})
      : {};
  const names = [
    ...Object.keys(declared).filter((name) => Object.hasOwn(value, name)),
    ...Object.keys(value).filter((name) => !Object.hasOwn(declared, name)),
  ];
  return Object.fromEntries(
    names.map((name) => [name, ordered((value as Record<string, unknown>)[name], declared[name])]),
  );
}

function outcomeOf(cases: readonly SuiteCase[]): Outcome {
  const outcome: Outcome = {
    refusedSchemas: 0,
    acceptedSchemas: 0,
    validAccepted: 0,
    validRefused: 0,
    invalidAccepted: [],
  };
  for (const { title, schema, tests } of cases) {
    try {
      const grammar = compileGrammar({ kind: "schema", schema });
      outcome.acceptedSchemas++;
      for (const { description, data, valid } of tests) {
        const accepted = recognizes(grammar, Buffer.from(JSON.stringify(ordered(data, schema))));
        if (!valid && accepted && !Object.hasOwn(NAMED, `${title}: ${description}`))
          outcome.invalidAccepted.push(`${title}: ${description}`);
        if (valid && accepted) outcome.validAccepted++;
        if (valid && !accepted) outcome.validRefused++;
      }
    } catch (error) {
      if (!["GRAMMAR_INVALID", "GRAMMAR_LIMIT"].includes((error as GrammarError).code)) throw error;
      outcome.refusedSchemas++;
    }
  }
  return outcome;
}

describe.each([
  ["draft2020-12", 250],
  ["draft4", 70],
] as const)("JSON-Schema-Test-Suite, %s", (draft, leastCases) => {
  const cases = suiteCases(draft);
  const absent = cases === undefined ? `: skipped, no installed package has it (@json-schema-org/tests)` : "";

  test.skipIf(cases === undefined)(`no instance is accepted that its schema forbids${absent}`, ({ annotate }) => {
    const outcome = outcomeOf(cases as readonly SuiteCase[]);
    void annotate(JSON.stringify({ draft, ...outcome }));
    expect(outcome.invalidAccepted).toEqual([]);
    expect((cases as readonly SuiteCase[]).length).toBeGreaterThanOrEqual(leastCases);
    expect(outcome.validAccepted).toBeGreaterThan(leastCases / 2);
  });
});
