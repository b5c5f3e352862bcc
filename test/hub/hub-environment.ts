// Folders and variables of a test with a hub: a cache of its own, and nothing of the user's.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { randomBytes } from "node:crypto";
import { fixture } from "../cli/command-line.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import type { TestHub } from "./test-hub.js";

const VARIABLES = [
  "HF_ENDPOINT",
  "HF_HOME",
  "HF_HUB_CACHE",
  "HUGGINGFACE_HUB_CACHE",
  "HF_TOKEN",
  "HF_HUB_OFFLINE",
  "XDG_CACHE_HOME",
  "OLLAMA_MODELS",
  "ROCMFORGE_MODEL_CACHE",
];

/** The smallest model, as bytes. */
export const MODEL_BYTES: Buffer = readFileSync(fixture("models/fable-3m-qwen2-Q4_K_M.gguf"));

/** The smallest model with random bytes after its tensors, which a GGUF may have. */
export function paddedModel(sizeBytes: number): Buffer {
  return Buffer.concat([MODEL_BYTES, randomBytes(sizeBytes - MODEL_BYTES.length)]);
}

/** Variables that point to a hub and to empty folders, until it is disposed. */
export class HubEnvironment implements Disposable {
  readonly folder = new TemporaryFolder();
  readonly #before = new Map(VARIABLES.map((name) => [name, process.env[name]]));

  constructor(hub: Pick<TestHub, "endpoint">, more: Readonly<Record<string, string>> = {}) {
    for (const name of VARIABLES) delete process.env[name];
    Object.assign(process.env, this.variables(hub), more);
  }

  /** The variables for another process. */
  variables({ endpoint }: Pick<TestHub, "endpoint">): Record<string, string> {
    return {
      HF_ENDPOINT: endpoint,
      HF_HOME: this.folder.file("hf"),
      XDG_CACHE_HOME: this.folder.file("cache"),
      OLLAMA_MODELS: this.folder.file("ollama"),
    };
  }

  /** The folder of the hub's repository in the cache. */
  repositoryFolder({ repository }: Pick<TestHub, "repository">): string {
    return join(this.folder.file("hf"), "hub", `models--${repository.replace("/", "--")}`);
  }

  [Symbol.dispose](): void {
    for (const [name, value] of this.#before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    this.folder[Symbol.dispose]();
  }
}
