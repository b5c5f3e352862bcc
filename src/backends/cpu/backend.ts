// The CPU backend: C++ kernels over the mapped file. TypeScript decides (threads, instruction set, fusion, memory); the addon
// computes, one call per step.

import { fuseExperts } from "../../graph/fusion.js";
import type { Operation } from "../../graph/operation.js";
import type { Program } from "../../graph/program.js";
import { optionalCount, optionalFlag, refuseValue } from "../../options.js";
import type { TensorDescriptor } from "../../tensor/descriptor.js";
import type { DeviceTensor } from "../../tensor/device-tensor.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import type {
  Backend,
  BackendDescription,
  BackendMemory,
  BackendOptions,
  CompiledProgram,
  KvCache,
  KvCacheOptions,
  ProgramLimits,
  Support,
  TensorSource,
} from "../contract.js";
import { hostMemory, supportsHostKvCache } from "../host-memory.js";
import { unavailableError } from "../unavailable.js";
import { loadAddon } from "./addon.js";
import type { NativeAddon } from "./native-bindings.js";
import { chooseIsa, ISA_VARIABLE } from "./isa.js";
import { CpuKvCache } from "./kv-cache.js";
import { lower, type LoweringOptions } from "./lowering.js";
import { native, translateNativeError } from "./native-error.js";
import { CpuProgram } from "./program.js";
import { TensorStore } from "./tensor.js";
import { defaultThreads, placedThreads } from "./threads.js";

const MAX_STEP_TOKENS = 512;
/** Prefill chunk: the cost of unpacking weights is negligible; chunks of 512 are no faster and take twice the scratch. */
const CHUNK_TOKENS = 256;
/** Maximum output rows of a step: 32 MB of logits for a vocabulary of 128k. */
const MAX_STEP_OUTPUTS = 64;
const MAX_THREADS = 1024;

/** The backend `cpu`: C++ kernels that compute from the mapped file. */
export class CpuBackend implements Backend {
  readonly description: BackendDescription;
  readonly defaultKvCacheType = "f16";
  readonly maxStepTokens = MAX_STEP_TOKENS;
  readonly chunkTokens = CHUNK_TOKENS;
  readonly maxStepOutputs = MAX_STEP_OUTPUTS;
  readonly #addon: NativeAddon;
  readonly #options: LoweringOptions;
  readonly #tensors: TensorStore;

  constructor(addon: NativeAddon, options: LoweringOptions) {
    const { isa, threads, deterministic } = options;
    this.#addon = addon;
    this.#options = options;
    this.#tensors = new TensorStore(addon);
    const mode = deterministic ? ", deterministic" : "";
    this.description = {
      name: "cpu",
      summary: `C++ kernels for ${isa}, ${threads} thread${threads === 1 ? "" : "s"}${mode}`,
      isa,
      threads,
    };
  }

  memory(): BackendMemory {
    return hostMemory();
  }

  supports(_operation: Operation): Support {
    return true;
  }

  /** Mapped pages belong to the system, which drops them when it needs the memory. */
  residentBytes({ sizeBytes }: TensorDescriptor, mapped: boolean): number {
    return mapped ? 0 : sizeBytes;
  }

  upload(source: TensorSource): Promise<DeviceTensor> {
    return this.#tensors.upload(source);
  }

  supportsKvCache(options: KvCacheOptions): Support {
    return supportsHostKvCache(options);
  }

  kvCacheBytes(options: KvCacheOptions): number {
    return native("BACKEND_UNSUPPORTED", () => this.#addon.kvCacheBytes(options));
  }

  createKvCache(options: KvCacheOptions): KvCache {
    return new CpuKvCache(this.#addon, options);
  }

  compile(program: Program, weights: readonly LazyTensor[], limits: ProgramLimits): CompiledProgram {
    const descriptors = weights.map(({ descriptor }) => descriptor);
    const spec = lower(fuseExperts(program), descriptors, limits, this.#options);
    return new CpuProgram(
      native("BACKEND_UNSUPPORTED", () => this.#addon.compile(spec)),
      weights,
      program.vocabularySize,
    );
  }

  async measureReadBandwidth(sizeBytes: number): Promise<number> {
    try {
      return await this.#addon.measureReadBandwidth(sizeBytes, this.#options.threads);
    } catch (error) {
      throw translateNativeError(error, "BACKEND_STEP");
    }
  }

  async measureDotProductPeak(): Promise<number | undefined> {
    try {
      const perSecond = await this.#addon.measureDotProductPeak(this.#options.isa, this.#options.threads);
      return perSecond > 0 ? perSecond : undefined;
    } catch (error) {
      throw translateNativeError(error, "BACKEND_STEP");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** Creates the `cpu` backend; throws if the addon is unavailable or an option is invalid. */
export function createCpuBackend({ threads, device, deterministic }: BackendOptions): Backend {
  if (device !== undefined) refuseValue("cpu", "device", "none, because this backend has no devices", device);
  const loaded = loadAddon();
  if ("reason" in loaded) throw unavailableError("cpu", loaded);
  const asked = optionalCount("cpu", "threads", threads, 1, MAX_THREADS);
  const place = asked === undefined ? defaultThreads() : placedThreads(asked);
  loaded.addon.confineThreads(place.processors ?? []);
  return new CpuBackend(loaded.addon, {
    isa: chooseIsa(loaded.addon.isas, process.env[ISA_VARIABLE]),
    threads: place.threads,
    deterministic: optionalFlag("cpu", "deterministic", deterministic) ?? false,
  });
}
