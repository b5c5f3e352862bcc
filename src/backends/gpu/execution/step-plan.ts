// What a program does for steps of one size class: its launches and BLAS matmuls in order, prepared incrementally.
// Kernels are loaded for the sizes that occur; weights are bound as they begin to arrive, so that the first layers
// compute while later ones are still being read.

import type { LaunchSize, MemoryPlace } from "../lowering/launch.js";
import { isNeeded, Launch } from "../lowering/launch.js";
import { type ModuleRequest, moduleName } from "../kernels/kernel-store.js";
import { type BlasSpec, isLaunch, type StepItem } from "../lowering/step-item.js";
import type { BlasLibrary } from "../blas/blas-library.js";
import { type MatrixShape, shapeKey } from "../blas/matmul-plan.js";
import type { MatmulCheck } from "../blas/matmul-check.js";
import type { DeviceAddress, StreamHandle } from "../drivers/shared/driver.js";
import { tracedAsync } from "../drivers/shared/start-trace.js";
import type { GpuRuntime } from "../memory/runtime.js";
import type { WeightId } from "../../../graph/operation.js";

/** A matmul that the BLAS library computes. */
class LibraryCall {
  readonly spec: BlasSpec;

  constructor(spec: BlasSpec) {
    this.spec = spec;
  }

  get weights(): readonly WeightId[] {
    return this.spec.weights.space === "weight" ? [this.spec.weights.weight] : [];
  }

  shape(size: LaunchSize): MatrixShape {
    const { rows, width, inputStride, outStride, tokens } = this.spec;
    return { rows, width, inputStride, outStride, tokens: size[tokens] };
  }

  run(blas: BlasLibrary, size: LaunchSize, { addressOf, stream, check }: LaunchRunner): void {
    const { weights, inputs, out } = this.spec;
    const address = (place: MemoryPlace): DeviceAddress => addressOf(place) as DeviceAddress;
    const matmul = {
      ...this.shape(size),
      weights: address(weights),
      inputs: address(inputs),
      out: address(out),
      stream,
    };
    blas.multiply(matmul);
    check?.queue(matmul);
  }
}

type Item = Launch | LibraryCall;

/** What a plan needs from its program to run. */
export interface LaunchRunner {
  readonly stream: StreamHandle;
  readonly blas: BlasLibrary | undefined;
  /** Checks of the BLAS library's matmuls; absent if they are not checked. */
  readonly check?: MatmulCheck | undefined;
  addressOf(place: MemoryPlace): bigint;
  /** Whether all of these weights are bound, so that `bring` would return undefined. */
  knows(weights: readonly WeightId[]): boolean;
  /** Binds these weights and makes the stream wait for them; undefined if that is already done. */
  bring(weights: readonly WeightId[]): Promise<void> | undefined;
}

/** A module of a step with the kernels of it that are launched. */
export interface UsedModule extends ModuleRequest {
  readonly name: string;
  readonly kernels: readonly string[];
}

/** The launches of one size class of steps, in order. */
export class StepPlan {
  readonly #runtime: GpuRuntime;
  readonly #items: readonly Item[];

  constructor(runtime: GpuRuntime, items: readonly StepItem[]) {
    this.#runtime = runtime;
    this.#items = items.map((item) => (isLaunch(item) ? new Launch(item) : new LibraryCall(item)));
  }

  /** Modules that a step of this size needs and that are not loaded, without duplicates. */
  missing(size: LaunchSize): readonly ModuleRequest[] {
    const modules = new Map<string, ModuleRequest>();
    for (const item of this.#items) {
      if (!(item instanceof Launch) || !isNeeded(item.spec, size) || item.isLoaded(size)) continue;
      const { defines } = item.spec.variants[item.spec.choose?.(size) ?? 0];
      const module = { file: item.spec.file, defines };
      modules.set(moduleName(module), module);
    }
    return [...modules.values()];
  }

  /** All modules that a step of this size needs. */
  modules(size: LaunchSize): readonly UsedModule[] {
    const modules = new Map<string, UsedModule>();
    for (const item of this.#items) {
      if (!(item instanceof Launch) || !isNeeded(item.spec, size)) continue;
      const { defines, kernel } = item.spec.variants[item.spec.choose?.(size) ?? 0];
      const module = { file: item.spec.file, defines };
      const name = moduleName(module);
      const kernels = new Set([...(modules.get(name)?.kernels ?? []), kernel]);
      modules.set(name, { ...module, name, kernels: [...kernels] });
    }
    return [...modules.values()];
  }

  /** Shapes of the matmuls that the BLAS library would compute. */
  blasShapes(size: LaunchSize): readonly MatrixShape[] {
    return this.#items.flatMap((item) =>
      item instanceof LibraryCall && size[item.spec.tokens] > 0 ? [item.shape(size)] : [],
    );
  }

  async load(size: LaunchSize): Promise<void> {
    const { kernels, device } = this.#runtime;
    const missing = this.#items.filter(
      (item) => item instanceof Launch && isNeeded(item.spec, size) && !item.isLoaded(size),
    );
    if (missing.length === 0) return;
    const loads = (): Promise<unknown> =>
      Promise.all(missing.map((item) => (item as Launch).load(size, kernels, device)));
    await tracedAsync(`kernels of a step of ${size.tokens} tokens`, loads);
  }

  /** Binds the launches of a step of this size whose weights are known. Call after `load`. */
  bindKnown(size: LaunchSize, runner: LaunchRunner): void {
    for (const item of this.#items) {
      if (!(item instanceof Launch) || item.isBound || !isNeeded(item.spec, size) || !runner.knows(item.weights))
        continue;
      item.bind((place) => runner.addressOf(place), size);
    }
  }

  /** Runs one BLAS matmul of each shape on whatever its memory contains; the results are not read. */
  rehearseBlas(size: LaunchSize, runner: LaunchRunner): void {
    const shapes = new Set<string>();
    // Makes the device current on this thread.
    this.#runtime.device.memory();
    for (const item of this.#items) {
      if (
        item instanceof Launch ||
        runner.blas === undefined ||
        size[item.spec.tokens] === 0 ||
        !runner.knows(item.weights)
      )
        continue;
      const key = shapeKey(item.shape(size));
      if (shapes.has(key)) continue;
      shapes.add(key);
      // Undefined inputs prove nothing about the library.
      item.run(runner.blas, size, { ...runner, check: undefined });
    }
  }

  /** Whether a step of this size can be captured: nothing is left to load, bind or wait for. */
  isReady(size: LaunchSize): boolean {
    return this.#items.every(
      (item) => !(item instanceof Launch) || !isNeeded(item.spec, size) || (item.isBound && item.isLoaded(size)),
    );
  }

  /** Queues the whole step, waiting for weights that have not arrived. Call after `load`. */
  async run(size: LaunchSize, runner: LaunchRunner, signal: AbortSignal | undefined): Promise<void> {
    let dependent = false;
    for (const item of this.#items) {
      if (item instanceof Launch ? !isNeeded(item.spec, size) : size[item.spec.tokens] === 0) continue;
      const isBound = item instanceof Launch && item.isBound;
      const coming = isBound ? undefined : runner.bring(item.weights);
      if (coming !== undefined) {
        signal?.throwIfAborted();
        await coming;
        signal?.throwIfAborted();
        // It reads its weights before it waits for its predecessor, so the stream has to be past their arrival.
        dependent = false;
      }
      dependent = this.#runItem(item, size, runner, dependent);
    }
  }

  /**
   * The step in parts of similar length and at most `mostLaunches` launches, each queued by one call. Requires
   * `isReady`.
   */
  parts(size: LaunchSize, mostLaunches: number, runner: LaunchRunner): readonly (() => void)[] {
    const needed = this.#items.filter((item) =>
      item instanceof Launch ? isNeeded(item.spec, size) : size[item.spec.tokens] > 0,
    );
    const count = Math.max(1, Math.ceil(needed.length / mostLaunches));
    const length = Math.ceil(needed.length / count);
    return Array.from({ length: count }, (_, index) => () => {
      let dependent = false;
      for (const item of needed.slice(index * length, (index + 1) * length))
        dependent = this.#runItem(item, size, runner, dependent);
    });
  }

  /** Forgets bound addresses, because one has changed. */
  unbind(): void {
    for (const item of this.#items) if (item instanceof Launch) item.unbind();
  }

  /** Returns whether the next launch may start while this one drains: only after one of our own kernels. */
  #runItem(item: Item, size: LaunchSize, runner: LaunchRunner, dependent: boolean): boolean {
    const { device } = this.#runtime;
    if (item instanceof Launch) {
      if (!item.isBound) item.bind((place) => runner.addressOf(place), size);
      item.run(device, size, runner.stream, dependent);
      return true;
    }
    if (runner.blas === undefined) throw new TypeError("a matmul was assigned to a BLAS library that is not open");
    item.run(runner.blas, size, runner);
    return false;
  }
}
