// Real schemas read as grammars: how many of them are accepted, and why others are not.

import type { GrammarError } from "../../src/errors.js";
import type { CompiledGrammar } from "../../src/grammar/automaton/compiled-grammar.js";
import { compileGrammar } from "../../src/grammar/compile-grammar.js";
import type { CorpusSchema } from "./corpus/corpus.js";
import { otherKeywords } from "./corpus/plain-schema.js";

export interface Reading {
  readonly origin: string;
  readonly schema: CorpusSchema["schema"];
  /** Made only of objects, arrays, unions, references, formats, bounds and patterns. */
  readonly plain: boolean;
  readonly grammar: CompiledGrammar | undefined;
  readonly refusal: string | undefined;
  readonly compileMs: number;
  /** The processor's time. */
  readonly compileCpuMs: number;
}

const MICROSECONDS_PER_MS = 1000;

export function* readings(schemas: Iterable<CorpusSchema>): Generator<Reading, void, undefined> {
  for (const { origin, schema } of schemas) {
    const plain = otherKeywords(schema).length === 0;
    const cpu = process.cpuUsage();
    const startedAt = performance.now();
    const times = (): Pick<Reading, "compileMs" | "compileCpuMs"> => {
      const compileMs = performance.now() - startedAt;
      const { user, system } = process.cpuUsage(cpu);
      return { compileMs, compileCpuMs: (user + system) / MICROSECONDS_PER_MS };
    };
    let result: Pick<Reading, "grammar" | "refusal" | "compileMs" | "compileCpuMs">;
    try {
      const grammar = compileGrammar({ kind: "schema", schema });
      result = { grammar, refusal: undefined, ...times() };
    } catch (error) {
      const took = times();
      const { code, message } = error as GrammarError;
      // Anything but a refusal is a mistake of ours.
      if (code !== "GRAMMAR_INVALID" && code !== "GRAMMAR_LIMIT") throw error;
      result = { grammar: undefined, refusal: message, ...took };
    }
    yield { origin, schema, plain, ...result };
  }
}

/** Refusals by what they are about, the most frequent first: places and names are left out. */
export function refusalCounts(refused: readonly Reading[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const { refusal = "" } of refused) {
    const reason = refusal
      .replace(
        /^\[grammar\] \S+?(?:\.(?<keyword>\w+))?(?:, character \d+)?: /,
        (_match, ...rest) => `${(rest.at(-1) as { keyword?: string }).keyword ?? "schema"}: `,
      )
      .replaceAll(/\d+/g, "N");
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return [...counts].sort((one, other) => other[1] - one[1]).map(([reason, count]) => `${count} × ${reason}`);
}
