// Loads a model in node-llama-cpp on the CPU, without building, logging or downloading anything.

import { getLlama } from "node-llama-cpp";

/** @param {{ modelPath: string, threads: number }} options */
export async function loadPeerModel({ modelPath, threads }) {
  const llama = await getLlama({
    gpu: false,
    build: "never",
    maxThreads: threads,
    logLevel: "error",
    progressLogs: false,
  });
  return await llama.loadModel({ modelPath, gpuLayers: 0 });
}
