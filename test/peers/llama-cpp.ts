// llama.cpp's tokenizer through node-llama-cpp, if `npm install --prefix bench/peers` has installed it.

import { existsSync } from "node:fs";

export const PEER_FOLDER = new URL("../../bench/peers/node_modules/node-llama-cpp/", import.meta.url);
export const peerIsInstalled = existsSync(PEER_FOLDER);

/** What these tests use of node-llama-cpp's model. */
export interface PeerModel {
  tokenize(text: string, specialTokens?: boolean): number[];
  detokenize(tokens: readonly number[], specialTokens?: boolean): string;
  isEogToken(token: number): boolean;
  dispose(): Promise<void>;
  readonly tokens: {
    readonly bos: number | null;
    readonly eos: number | null;
    readonly shouldPrependBosToken: boolean;
    readonly shouldAppendEosToken: boolean;
  };
}

interface PeerModule {
  getLlama(options: object): Promise<{ loadModel(options: object): Promise<PeerModel> }>;
}

let llama: Promise<{ loadModel(options: object): Promise<PeerModel> }> | undefined;

export async function loadPeerVocabulary(modelPath: string): Promise<PeerModel> {
  llama ??= (import(new URL("dist/index.js", PEER_FOLDER).href) as Promise<PeerModule>).then(({ getLlama }) =>
    getLlama({ gpu: false, build: "never", maxThreads: 1, logLevel: "disabled", progressLogs: false }),
  );
  return (await llama).loadModel({ modelPath, vocabOnly: true });
}
