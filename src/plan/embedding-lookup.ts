// Rows of the embedding table alone, as a program of one operation: runs `embeddingLookup`.

import type { Backend, CompiledProgram, ProgramLimits } from "../backends/contract.js";
import { GraphBuilder } from "../graph/builder.js";
import type { Program } from "../graph/program.js";
import type { GgufLoader } from "../loader/gguf-loader.js";
import { StepCheck } from "./step-check.js";

/** Looks up embedding rows on the backend. */
export class EmbeddingLookup implements Disposable {
  readonly #width: number;
  readonly #chunkTokens: number;
  readonly #compiled: CompiledProgram;
  readonly #check: StepCheck;

  constructor(model: Program, loader: GgufLoader, backend: Backend, limits: ProgramLimits) {
    const program = embeddingProgram(model);
    this.#width = program.values[program.hidden].width;
    this.#chunkTokens = Math.min(limits.maxTokens, limits.maxOutputs);
    this.#check = new StepCheck({ ...limits, vocabularySize: program.vocabularySize, kv: undefined });
    const weights = program.weights.map(({ name }) => loader.lazy(name, backend));
    this.#compiled = backend.compile(program, weights, limits);
  }

  async rows(tokens: Int32Array): Promise<Float32Array> {
    const result = new Float32Array(tokens.length * this.#width);
    for (let start = 0; start < tokens.length; start += this.#chunkTokens) {
      const chunk = tokens.subarray(start, start + this.#chunkTokens);
      const step = {
        tokens: chunk,
        positions: new Int32Array(chunk.length),
        sequenceOffsets: Int32Array.of(0, chunk.length),
        blockTables: [],
        outputs: Array.from(chunk, (_, row) => ({ row, want: { kind: "hidden" as const } })),
      };
      this.#check.check(step, undefined);
      const outputs = await this.#compiled.run(step, undefined);
      for (const [row, output] of outputs.entries()) {
        if (output.kind === "hidden") result.set(output.values, (start + row) * this.#width);
      }
    }
    return result;
  }

  [Symbol.dispose](): void {
    this.#compiled[Symbol.dispose]();
  }
}

/** A program that only looks tokens up: it uses no cache, and positions are irrelevant. */
function embeddingProgram({ operations, weights, vocabularySize, kv }: Program): Program {
  const embed = operations.find((operation) => operation.kind === "embed");
  if (embed === undefined) throw new TypeError("a program without an embedding");
  const table = weights[embed.table];
  const { kvHeads, keyWidth, valueWidth } = kv;
  const graph = new GraphBuilder({ fileName: (name) => name, hasTensor: () => true });
  const hidden = graph.segment("embedding", undefined, () =>
    graph.selectRows(graph.embed(table.name, table.shape[0], vocabularySize), "outputs"),
  );
  return graph.finish({ kv: { layers: 0, kvHeads, keyWidth, valueWidth }, vocabularySize, hidden, logits: undefined });
}
