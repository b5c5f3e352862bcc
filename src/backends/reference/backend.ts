// The backend that defines what is correct: plain TypeScript, every operation, every supported block type, f32
// throughout.

import type { Operation } from "../../graph/operation.js";
import type { Program } from "../../graph/program.js";
import { optionalCount, optionalFlag, refuseValue } from "../../options.js";
import type { TensorDescriptor } from "../../tensor/descriptor.js";
import type { DeviceTensor } from "../../tensor/device-tensor.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import type {
  Backend,
  BackendMemory,
  BackendOptions,
  CompiledProgram,
  KvCache,
  KvCacheOptions,
  Support,
  TensorSource,
} from "../contract.js";
import { hostMemory, supportsHostKvCache } from "../host-memory.js";
import { ACTIVATIONS, type ActivationTable } from "./activations.js";
import { kvCacheBytes, ReferenceKvCache } from "./kv-cache.js";
import { ReferenceProgram } from "./program.js";
import { decodedBytes, uploadTensor } from "./tensor.js";

/** Keeps scratch memory small and cancellation fast. */
const MAX_STEP_TOKENS = 64;

interface ReferenceBackendOptions {
  /** Replaces activations, for tests that compare with an engine that uses tables. */
  readonly activations?: Partial<ActivationTable>;
}

/** The backend `reference`, which other backends are compared with. */
export class ReferenceBackend implements Backend {
  readonly description = {
    name: "reference",
    summary: "plain TypeScript in f32, one thread: exact, not fast",
    threads: 1,
  };
  readonly defaultKvCacheType = "f32";
  readonly maxStepTokens = MAX_STEP_TOKENS;
  readonly maxStepOutputs = MAX_STEP_TOKENS;
  readonly #activations: ActivationTable;

  constructor({ activations = {} }: ReferenceBackendOptions = {}) {
    this.#activations = { ...ACTIVATIONS, ...activations };
  }

  memory(): BackendMemory {
    return hostMemory();
  }

  supports(_operation: Operation): Support {
    return true;
  }

  residentBytes(descriptor: TensorDescriptor): number {
    return decodedBytes(descriptor);
  }

  upload(source: TensorSource): Promise<DeviceTensor> {
    return uploadTensor(source);
  }

  supportsKvCache(options: KvCacheOptions): Support {
    return supportsHostKvCache(options);
  }

  kvCacheBytes(options: KvCacheOptions): number {
    return kvCacheBytes(options);
  }

  createKvCache(options: KvCacheOptions): KvCache {
    return new ReferenceKvCache(options);
  }

  compile(program: Program, weights: readonly LazyTensor[]): CompiledProgram {
    return new ReferenceProgram(program, weights, this.#activations);
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** Creates the `reference` backend. It uses one thread, whatever `threads` allows, and is always deterministic. */
export function createReferenceBackend({ threads, device, deterministic }: BackendOptions): Backend {
  optionalCount("reference", "threads", threads, 1, Number.MAX_SAFE_INTEGER);
  optionalFlag("reference", "deterministic", deterministic);
  if (device !== undefined) refuseValue("reference", "device", "none, because this backend has no devices", device);
  return new ReferenceBackend();
}
