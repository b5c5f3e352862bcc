// The GPU backend over a driver's device: its capabilities, its memory, and the objects that live on it. HIP and CUDA
// differ only below the driver contract.

import type { Operation } from "../../graph/operation.js";
import type { Program } from "../../graph/program.js";
import { Lifetime } from "../../lifetime.js";
import { optionalFlag, refuseValue } from "../../options.js";
import type { TensorDescriptor } from "../../tensor/descriptor.js";
import type { DeviceTensor } from "../../tensor/device-tensor.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import type {
  Backend,
  BackendDescription,
  BackendLoadTimings,
  BackendMemory,
  BackendOptions,
  CompiledProgram,
  KvCache,
  KvCacheOptions,
  ProgramLimits,
  Support,
  TensorSource,
} from "../contract.js";
import type { TunedChoice } from "../tuning.js";
import { measureReadBandwidth } from "./execution/bandwidth.js";
import { areKernelsChecked, isChecked } from "./drivers/shared/checks.js";
import { chooseDevice } from "./drivers/device-selection.js";
import type { DriverKind, GpuCompiler, GpuDevice, GpuDriver } from "./drivers/shared/driver.js";
import { driverStartMs } from "./drivers/early-start.js";
import { checkedDevice, type KernelCheckOptions } from "./checking/checked-device.js";
import { type CheckedDevice, KernelCheck } from "./checking/kernel-check.js";
import type { TrialHost } from "./checking/kernel-trial.js";
import type { KernelGate } from "./execution/step-admission.js";
import { DeviceRecord } from "./kernels/device-record.js";
import { KernelStore } from "./kernels/kernel-store.js";
import { HostTable } from "./memory/host-table.js";
import { GpuKvCache } from "./memory/kv-cache.js";
import { kvLayout, supportsGpuKvCache } from "./memory/kv-layout.js";
import { KernelChoices } from "./lowering/kernel-choices.js";
import { createContext, fuseForGpu } from "./lowering/lowering.js";
import { supportsOperation } from "./lowering/operation-table.js";
import { GpuProgram, type ProgramOptions } from "./execution/program.js";
import { restoreChoices, usedChoices } from "./execution/recorded-choices.js";
import { GpuRuntime } from "./memory/runtime.js";
import { GRAPHS_VARIABLE } from "./execution/step-graphs.js";
import { layoutOf, Uploader } from "./memory/upload.js";
import { hasDeviceLayout } from "./memory/weight-layout.js";

/** `off` gives each tensor and buffer its own allocation, so that memory checkers see where it ends. */
const SLABS_VARIABLE = "ROCMFORGE_GPU_SLABS";
/** `off` computes large matmuls with this package's own kernels instead of a BLAS library. */
const BLAS_VARIABLE = "ROCMFORGE_GPU_BLAS";
/** `on` makes every kernel with free parameters begin with poor ones, for testing the tuner. */
const POOR_DEFAULTS_VARIABLE = "ROCMFORGE_GPU_POOR_DEFAULTS";
/** `on` tunes kernels in the background, `off` does not even use what was tuned before. */
const TUNE_VARIABLE = "ROCMFORGE_GPU_TUNE";
/** `off` compiles kernels only when a step needs them. */
const PREWARM_VARIABLE = "ROCMFORGE_GPU_PREWARM";

const GIB = 2 ** 30;
/** Step sizes by the device's memory: larger steps use the device better and need more scratch memory. */
const STEP_SIZES = [
  { leastBytes: 64 * GIB, tokens: 4096, outputs: 256 },
  { leastBytes: 20 * GIB, tokens: 2048, outputs: 128 },
  { leastBytes: 10 * GIB, tokens: 1024, outputs: 64 },
  { leastBytes: 0, tokens: 512, outputs: 64 },
] as const;
/** Longer steps gain nothing in deterministic mode, which computes each row as if it were alone. */
const DETERMINISTIC_STEP_TOKENS = 512;

interface GpuBackendOptions extends ProgramOptions {
  readonly name: string;
  readonly deterministic: boolean;
  readonly slabs: boolean;
  readonly poorDefaults: boolean;
  /** Whether kernels have the parameters that were chosen for them on this card before. */
  readonly usesTuned: boolean;
  /** How kernels are checked before their first use; absent: they are not. */
  readonly kernelChecks?: KernelCheckOptions;
  /** Why this device was chosen, human-readable. */
  readonly because: string;
}

/** The backends `hip` and `cuda`: one device with its weights, KV caches and programs. */
export class GpuBackend implements Backend {
  readonly description: BackendDescription;
  readonly defaultKvCacheType = "f16";
  readonly maxStepTokens: number;
  readonly maxStepOutputs: number;
  readonly usualSequences: number;
  readonly widensGates = true;
  readonly #runtime: GpuRuntime;
  readonly #uploader: Uploader;
  readonly #options: GpuBackendOptions;
  readonly #choices: KernelChoices;
  readonly #programs = new Set<GpuProgram>();
  readonly #uploads = new Set<Promise<unknown>>();
  readonly #lifetime: Lifetime;
  readonly #checked: CheckedDevice | undefined;
  /** Where the tensors on the device came from, for comparing with other backends. */
  readonly #sources = new WeakMap<DeviceTensor, TensorSource>();

  constructor(device: GpuDevice, kernels: KernelStore, options: GpuBackendOptions) {
    const { name, deterministic, because } = options;
    const { properties } = device;
    const size =
      STEP_SIZES.find(({ leastBytes }) => properties.totalBytes >= leastBytes) ?? STEP_SIZES[STEP_SIZES.length - 1];
    this.maxStepTokens = deterministic ? DETERMINISTIC_STEP_TOKENS : size.tokens;
    this.maxStepOutputs = size.outputs;
    this.usualSequences = size.outputs;
    this.#options = options;
    this.#choices = new KernelChoices({ deterministic, poor: options.poorDefaults });
    if (options.usesTuned && options.record !== undefined) restoreChoices(this.#choices, options.record, deterministic);
    this.#runtime = new GpuRuntime(device, kernels, options);
    this.#checked = checkedDevice(options.kernelChecks, this.#choices, this.#runtime);
    this.#runtime.marks.driver.begin(driverStartMs(device.kind));
    this.#uploader = new Uploader(this.#runtime);
    this.#lifetime = new Lifetime(`the ${name} backend`);
    const mode = deterministic ? ", deterministic" : "";
    this.description = {
      name,
      summary: `${properties.name} (${properties.architecture}), ${because}${mode}`,
      isa: properties.architecture,
    };
  }

  async ready(): Promise<void> {
    this.#lifetime.assertAlive();
    await this.#runtime.device.whenReady?.();
    this.#lifetime.assertAlive();
    // Throws if the device cannot be used.
    this.#runtime.device.memory();
    this.#runtime.marks.driver.end();
  }

  memory(): BackendMemory {
    this.#lifetime.assertAlive();
    return {
      totalBytes: this.#runtime.device.properties.totalBytes,
      availableBytes: this.#runtime.memory.availableBytes,
    };
  }

  supports(operation: Operation, weights: readonly TensorDescriptor[]): Support {
    return supportsOperation(operation, weights);
  }

  residentBytes(descriptor: TensorDescriptor): number {
    if (descriptor.onHost === true) return 0;
    return hasDeviceLayout(descriptor.layout.name) ? layoutOf(descriptor).sizeBytes : descriptor.sizeBytes;
  }

  async upload(source: TensorSource): Promise<DeviceTensor> {
    this.#lifetime.assertAlive();
    if (source.descriptor.onHost === true) return this.#withSource(new HostTable(source), source);
    const upload = this.#uploader.upload(source);
    this.#uploads.add(upload);
    try {
      return this.#withSource(await upload, source);
    } finally {
      this.#uploads.delete(upload);
    }
  }

  supportsKvCache(options: KvCacheOptions): Support {
    return supportsGpuKvCache(options);
  }

  kvCacheBytes(options: KvCacheOptions): number {
    return kvLayout(options).sizeBytes;
  }

  createKvCache(options: KvCacheOptions): KvCache {
    this.#lifetime.assertAlive();
    return new GpuKvCache(this.#runtime, options);
  }

  compile(program: Program, weights: readonly LazyTensor[], limits: ProgramLimits): CompiledProgram {
    this.#lifetime.assertAlive();
    const gate =
      this.#checked === undefined
        ? undefined
        : new KernelCheck(this.#checked, this.#trialHost(weights, limits), program);
    this.#uploader.prepare(weights.map(({ descriptor }) => descriptor).filter(({ onHost }) => onHost !== true));
    return this.#compile(program, weights, limits, { choices: this.#choices, options: this.#options, gate });
  }

  notices(): readonly string[] {
    return this.#runtime.notices;
  }

  tuned(): readonly TunedChoice[] {
    const { record, deterministic } = this.#options;
    return record === undefined ? [] : usedChoices(this.#choices, record, deterministic);
  }

  loadTimings(): BackendLoadTimings | undefined {
    return this.#runtime.marks.timings();
  }

  async measureReadBandwidth(sizeBytes: number): Promise<number> {
    this.#lifetime.assertAlive();
    return await measureReadBandwidth(this.#runtime.device, this.#runtime.memory, this.#runtime.kernels, sizeBytes);
  }

  #compile(
    program: Program,
    weights: readonly LazyTensor[],
    limits: ProgramLimits,
    { choices, options, gate }: CompileDetails,
  ): GpuProgram {
    const { device } = this.#runtime;
    const context = createContext({
      fused: fuseForGpu(program),
      weights: weights.map(({ descriptor }) => descriptor),
      limits,
      device: device.properties,
      kind: device.kind,
      deterministic: this.#options.deterministic,
      choices,
    });
    const onFreed = (freed: GpuProgram): boolean => this.#programs.delete(freed);
    const compiled = new GpuProgram(this.#runtime, context, weights, options, onFreed, gate);
    this.#programs.add(compiled);
    return compiled;
  }

  /** What a check of a program's kernels takes from this backend; its parts run launch by launch. */
  #trialHost(weights: readonly LazyTensor[], limits: ProgramLimits): TrialHost {
    const options = { ...this.#options, graphs: false, prewarm: false, tune: false, trial: true };
    return {
      weights,
      limits,
      compile: (part, partWeights, partLimits, { choices = this.#choices, blas }) =>
        this.#compile(part, partWeights, partLimits, { choices, options: { ...options, blas }, gate: undefined }),
      upload: (source) => this.upload(source),
      sourceOf: (tensor) => this.#sources.get(tensor),
      createKvCache: (cacheOptions) => this.createKvCache(cacheOptions),
    };
  }

  #withSource<Tensor extends DeviceTensor>(tensor: Tensor, source: TensorSource): Tensor {
    if (this.#checked !== undefined) this.#sources.set(tensor, source);
    return tensor;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#lifetime.end()) return;
    await this.#checked?.trust.written();
    await Promise.allSettled(this.#uploads);
    await Promise.all([...this.#programs].map((program) => program.ended()));
    await this.#runtime.kernels.ended();
    await this.#uploader.ended();
    await this.#runtime.copiesEnded();
    this.#uploader[Symbol.dispose]();
    this.#runtime[Symbol.dispose]();
  }
}

interface CompileDetails {
  readonly choices: KernelChoices;
  readonly options: ProgramOptions;
  readonly gate: KernelGate | undefined;
}

interface GpuBackendRequest {
  readonly driver: GpuDriver;
  readonly compiler: GpuCompiler;
  readonly name: DriverKind;
  readonly backendOptions: BackendOptions;
  /** Opens a backend on the CPU that kernels are compared with; absent: they are not checked. */
  readonly openOracle?: (() => Promise<Backend>) | undefined;
}

/** Returns the backend while its device is still being opened; `ready` waits for it. */
export function createGpuBackend(request: GpuBackendRequest): Backend {
  const { driver, name, backendOptions } = request;
  const { index } = chooseDevice(name, driver.devices(), backendOptions.device).properties;
  // Errors are reported when the device is used.
  driver.prepare?.(index).catch(() => {});
  return openGpuBackend(request);
}

/** Chooses a device and opens it; throws a `GpuError` if none can be used. */
export function openGpuBackend({
  driver,
  compiler,
  name,
  backendOptions: { threads, device: wanted, deterministic, prewarm },
  openOracle,
}: GpuBackendRequest): GpuBackend {
  if (threads !== undefined) refuseValue(name, "threads", "none, because the GPU computes", threads);
  const isDeterministic = optionalFlag(name, "deterministic", deterministic) ?? false;
  const { properties, because } = chooseDevice(name, driver.devices(), wanted);
  const device = driver.open(properties.index);
  const poorDefaults = isOn(POOR_DEFAULTS_VARIABLE);
  const record = new DeviceRecord({
    kind: name,
    device: properties,
    driver: driver.version,
    compiler: compiler.identity,
    poor: poorDefaults,
  });
  const { name: card, architecture } = properties;
  const identity = `${card} (${architecture}) with driver ${driver.version} and ${compiler.release ?? compiler.identity}`;
  try {
    return new GpuBackend(device, new KernelStore(device, compiler), {
      name,
      deterministic: isDeterministic,
      because,
      graphs: !isOff(GRAPHS_VARIABLE),
      slabs: !isOff(SLABS_VARIABLE),
      blas: !isOff(BLAS_VARIABLE),
      prewarm: optionalFlag(name, "prewarm", prewarm) !== false && !isOff(PREWARM_VARIABLE),
      tune: isOn(TUNE_VARIABLE),
      usesTuned: !isOff(TUNE_VARIABLE),
      record,
      poorDefaults,
      checks: isChecked(name),
      ...(openOracle !== undefined && areKernelsChecked(name)
        ? { kernelChecks: { openOracle, record, identity } }
        : {}),
    });
  } catch (error) {
    device[Symbol.dispose]();
    throw error;
  }
}

function isOn(variable: string): boolean {
  return process.env[variable]?.trim().toLowerCase() === "on";
}

function isOff(variable: string): boolean {
  return process.env[variable]?.trim().toLowerCase() === "off";
}
