// llama.cpp's logits after every token, through node-llama-cpp: one thread, the CPU, f32 keys and values, no flash
// attention, so that a file of f32 weights is computed in f32 throughout.

import { PEER_FOLDER } from "./llama-cpp.js";

interface NextLogits {
  readonly next: { readonly logits?: ReadonlyMap<number, number> };
}

/** What these tests use of node-llama-cpp. */
interface PeerSequence {
  controlledEvaluate(
    input: readonly (readonly [number, { readonly generateNext: { readonly logits: true } }])[],
  ): Promise<readonly (NextLogits | undefined)[]>;
}
interface PeerContext {
  getSequence(): PeerSequence;
  dispose(): Promise<void>;
}
interface PeerModel {
  createContext(options: object): Promise<PeerContext>;
  dispose(): Promise<void>;
}
interface PeerEngine {
  loadModel(options: object): Promise<PeerModel>;
}
interface PeerModule {
  getLlama(options: object): Promise<PeerEngine>;
}

let engine: Promise<PeerEngine> | undefined;

function peerEngine(): Promise<PeerEngine> {
  engine ??= (import(new URL("dist/index.js", PEER_FOLDER).href) as Promise<PeerModule>).then(({ getLlama }) =>
    getLlama({ gpu: false, build: "never", maxThreads: 1, logLevel: "error", progressLogs: false }),
  );
  return engine;
}

/** Row after row, tokens × vocabulary, as `Model.logits` gives them. */
export async function peerLogits(modelPath: string, tokens: Int32Array, vocabularySize: number): Promise<Float32Array> {
  const model = await (await peerEngine()).loadModel({ modelPath, gpuLayers: 0 });
  try {
    const context = await model.createContext({
      contextSize: Math.max(64, tokens.length + 8),
      batchSize: Math.max(64, tokens.length),
      threads: 1,
      flashAttention: false,
      experimentalKvCacheKeyType: "F32",
      experimentalKvCacheValueType: "F32",
    });
    const rows = await context
      .getSequence()
      .controlledEvaluate(Array.from(tokens, (token) => [token, { generateNext: { logits: true } }] as const));
    const result = new Float32Array(tokens.length * vocabularySize).fill(Number.NaN);
    for (const [row, output] of rows.entries()) {
      for (const [token, logit] of output?.next.logits ?? []) result[row * vocabularySize + token] = logit;
    }
    await context.dispose();
    return result;
  } finally {
    await model.dispose();
  }
}
