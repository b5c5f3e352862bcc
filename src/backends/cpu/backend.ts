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
import type { NativeAddon, NativeProgram } from "./native-bindings.js";
import { chooseIsa, ISA_VARIABLE } from "./isa.js";
import { CpuKvCache } from "./kv-cache.js";
import { lower, type LoweringOptions } from "./lowering.js";
import { native, translateNativeError } from "./native-error.js";
import { CpuProgram } from "./program.js";
import { TensorStore } from "./tensor.js";
import { defaultThreads, placedThreads } from "./threads.js";
import type { TunedChoice } from "../tuning.js";
import { modelKey, type SettingName, TunedModels, type TunedSettings } from "./tuned-settings.js";
import { type CpuSettings, settingChoice, tuneCpu } from "./tuner.js";

const MAX_STEP_TOKENS = 512;
/** Prefill chunk: the cost of unpacking weights is negligible; chunks of 512 are no faster and take twice the scratch. */
const CHUNK_TOKENS = 256;
/** Maximum output rows of a step: 32 MB of logits for a vocabulary of 128k. */
const MAX_STEP_OUTPUTS = 64;
const MAX_THREADS = 1024;

/** Whether and where settings are tuned. */
interface CpuTuningOptions {
  readonly record?: TunedModels;
  /** Whether the user left the number of threads open. */
  readonly mayChooseThreads: boolean;
}

/** The backend `cpu`: C++ kernels that compute from the mapped file. */
export class CpuBackend implements Backend {
  readonly defaultKvCacheType = "f16";
  readonly maxStepTokens = MAX_STEP_TOKENS;
  readonly maxStepOutputs = MAX_STEP_OUTPUTS;
  readonly #addon: NativeAddon;
  readonly #options: LoweringOptions;
  readonly #tuning: CpuTuningOptions;
  readonly #tensors: TensorStore;
  #settings: CpuSettings;
  /** Tuned settings of the program that was compiled last. */
  #tuned: TunedSettings = {};

  /** `tuning`: where tuned settings are kept; absent: settings are not tuned. */
  constructor(addon: NativeAddon, options: LoweringOptions, tuning: CpuTuningOptions = { mayChooseThreads: false }) {
    this.#addon = addon;
    this.#options = options;
    this.#tuning = tuning;
    this.#tensors = new TensorStore(addon);
    this.#settings = { threads: options.threads, chunkTokens: CHUNK_TOKENS };
  }

  get description(): BackendDescription {
    const { isa, deterministic } = this.#options;
    const { threads } = this.#settings;
    const mode = deterministic ? ", deterministic" : "";
    return {
      name: "cpu",
      summary: `C++ kernels for ${isa}, ${threads} thread${threads === 1 ? "" : "s"}${mode}`,
      isa,
      threads,
    };
  }

  get chunkTokens(): number {
    return this.#settings.chunkTokens;
  }

  tuned(): readonly TunedChoice[] {
    return Object.entries(this.#tuned).map(([name, setting]) => settingChoice(name as SettingName, setting));
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
    const fused = fuseExperts(program);
    const onThreads = (count: number): NativeProgram => {
      const spec = lower(fused, descriptors, limits, { ...this.#options, threads: count });
      return native("BACKEND_UNSUPPORTED", () => this.#addon.compile(spec));
    };
    const { record } = this.#tuning;
    const model = modelKey(descriptors);
    // Programs that were not tuned, such as a lookup of embeddings, leave the settings of the model's own.
    const kept = record?.settings(model) ?? {};
    const isTuned = Object.keys(kept).length > 0;
    if (isTuned) this.#use(kept);
    let threads = isTuned ? this.#settings.threads : this.#options.threads;
    const compiled = onThreads(threads);
    if (record === undefined) return new CpuProgram(compiled, weights, program.vocabularySize);
    return new CpuProgram(compiled, weights, program.vocabularySize, async (options) => {
      const { settings, report } = await tuneCpu(
        {
          kv: program.kv,
          limits,
          maxStepTokens: MAX_STEP_TOKENS,
          vocabularySize: program.vocabularySize,
          settings: { threads: this.#options.threads, chunkTokens: CHUNK_TOKENS },
          mayChooseThreads: this.#tuning.mayChooseThreads,
          compile: (count) => {
            this.#confine(count);
            return new CpuProgram(onThreads(count), weights, program.vocabularySize);
          },
          createKvCache: (cacheOptions) => this.createKvCache(cacheOptions),
        },
        options,
      );
      const isFound = Object.keys(settings).length > 0;
      const isKept = isFound && (await record.keep(model, settings));
      if (isFound) this.#use(settings);
      const before = threads;
      ({ threads } = this.#settings);
      this.#confine(threads);
      return {
        report: { ...report, keptIn: isKept ? record.path : null },
        ...(threads === before ? {} : { replacement: onThreads(threads) }),
      };
    });
  }

  /** Settings that are out of range are left as they are: the record is only a file. */
  #use(settings: TunedSettings): void {
    const { threads, chunkTokens } = settings;
    const { mayChooseThreads } = this.#tuning;
    const isOurs = mayChooseThreads && threads !== undefined && threads.after <= MAX_THREADS;
    const isChunk = chunkTokens !== undefined && chunkTokens.after <= MAX_STEP_TOKENS;
    this.#tuned = { ...(isOurs ? { threads } : {}), ...(isChunk ? { chunkTokens } : {}) };
    this.#settings = {
      threads: isOurs ? threads.after : this.#options.threads,
      chunkTokens: isChunk ? chunkTokens.after : CHUNK_TOKENS,
    };
    if (isOurs) this.#confine(threads.after);
  }

  /** Threads that are chosen here run where as many that were asked for would. */
  #confine(threads: number): void {
    if (this.#tuning.mayChooseThreads) this.#addon.confineThreads(placedThreads(threads).processors ?? []);
  }

  async measureReadBandwidth(sizeBytes: number): Promise<number> {
    try {
      return await this.#addon.measureReadBandwidth(sizeBytes, this.#settings.threads);
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
  const { addon, path } = loaded;
  addon.confineThreads(place.processors ?? []);
  const options = {
    isa: chooseIsa(addon.isas, process.env[ISA_VARIABLE]),
    threads: place.threads,
    deterministic: optionalFlag("cpu", "deterministic", deterministic) ?? false,
  };
  const record = new TunedModels({ ...options, addon: path, bindingsVersion: addon.bindingsVersion, place });
  return new CpuBackend(addon, options, { record, mayChooseThreads: asked === undefined });
}
