// Rows of the embedding table alone, as a program of one operation: what `embeddingLookup` runs.

import type { Backend, CompiledProgram } from "../backends/contract.js";
import { GraphBuilder } from "../graph/builder.js";
import type { Program } from "../graph/program.js";
import type { GgufLoader } from "../loader/gguf-loader.js";
import { checkStep } from "./step-check.js";

export class EmbeddingLookup implements Disposable {
  readonly #program: Program;
  readonly #compiled: CompiledProgram;
  readonly #backend: Backend;

  constructor(model: { readonly program: Program }, loader: GgufLoader, backend: Backend) {
    this.#program = embeddingProgram(model.program);
    this.#backend = backend;
    this.#compiled = backend.compile(
      this.#program,
      this.#program.weights.map(({ name }) => loader.lazy(name, backend)),
    );
  }

  async rows(tokens: Int32Array): Promise<Float32Array> {
    const { vocabularySize } = this.#program;
    const { maxStepTokens } = this.#backend;
    const width = this.#program.values[this.#program.hidden].width;
    const result = new Float32Array(tokens.length * width);
    for (let start = 0; start < tokens.length; start += maxStepTokens) {
      const chunk = tokens.subarray(start, start + maxStepTokens);
      const step = {
        tokens: chunk,
        positions: new Int32Array(chunk.length),
        sequenceOffsets: Int32Array.of(0, chunk.length),
        blockTables: [],
        outputs: Array.from(chunk, (_, row) => ({ row, want: { kind: "hidden" as const } })),
      };
      checkStep(step, { vocabularySize, maxStepTokens, kvCache: undefined });
      const outputs = await this.#compiled.run(step, undefined);
      for (const [row, output] of outputs.entries()) {
        if (output.kind === "hidden") result.set(output.values, (start + row) * width);
      }
    }
    return result;
  }

  [Symbol.dispose](): void {
    this.#compiled[Symbol.dispose]();
  }
}

function embeddingProgram({ operations, weights, vocabularySize, kv }: Program): Program {
  const embed = operations.find((operation) => operation.kind === "embed");
  if (embed === undefined) throw new TypeError("a program without an embedding");
  const table = weights[embed.table];
  const graph = new GraphBuilder({ fileName: (name) => name, hasTensor: () => true });
  const hidden = graph.segment("embedding", undefined, () =>
    graph.selectRows(graph.embed(table.name, table.shape[0], vocabularySize)),
  );
  return graph.finish({ kv, vocabularySize, hidden, logits: undefined });
}
