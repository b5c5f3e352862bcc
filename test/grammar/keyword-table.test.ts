// Every keyword of draft 2020-12 on values of every kind: what is accepted satisfies the schema (ajv says so), and what
// satisfies it and is written as the documents say is accepted.

import { describe, expect, test } from "vitest";
import type { GrammarError } from "../../src/errors.js";
import { compileGrammar } from "../../src/grammar/compile-grammar.js";
import { recognizes } from "../../src/grammar/automaton/recognizer.js";
import { FORMAT_SCHEMAS, FORMAT_TEXTS, KEYWORD_SCHEMAS, values } from "./cases/keyword-table.js";
import type { JsonSchema } from "./cases/schema-cases.js";
import { SchemaJudge, validatorOf } from "./cases/schema-judge.js";
import { FaultLog } from "./walking/fault-log.js";

/** Schemas of the table that docs/structured-output.md says are refused, by what it says. */
const REFUSED: readonly RegExp[] = [/uniqueItems/, /unevaluatedItems/];

describe("keywords", () => {
  test("values of every kind", () => {
    const faults = new FaultLog();
    const texts = values().map((value) => Buffer.from(JSON.stringify(value)));
    let verdicts = 0;
    for (const schema of KEYWORD_SCHEMAS as readonly JsonSchema[]) {
      try {
        const grammar = compileGrammar({ kind: "schema", schema });
        const judge = new SchemaJudge(schema);
        for (const text of texts) {
          const verdict = judge.verdict(text);
          const accepted = recognizes(grammar, text);
          if (verdict !== "either") verdicts++;
          if (verdict !== "either" && accepted !== (verdict === "accept"))
            faults.add({ form: schema, text: text.toString(), accepted, verdict });
        }
      } catch (error) {
        const { code, message } = error as GrammarError;
        if (code !== "GRAMMAR_INVALID" || !REFUSED.some((pattern) => pattern.test(message)))
          faults.add({ form: schema, refused: message });
      }
    }
    faults.expectNone();
    expect(verdicts).toBeGreaterThan(50_000);
  });

  test("formats: no text that its standard forbids", () => {
    const faults = new FaultLog();
    for (const schema of FORMAT_SCHEMAS as readonly JsonSchema[]) {
      const grammar = compileGrammar({ kind: "schema", schema });
      const validate = validatorOf(schema);
      for (const text of FORMAT_TEXTS) {
        const accepted = recognizes(grammar, Buffer.from(JSON.stringify(text)));
        if (accepted && !validate(text)) faults.add({ form: `${JSON.stringify(schema)} ${text}`, accepted });
      }
    }
    faults.expectNone();
  });
});
