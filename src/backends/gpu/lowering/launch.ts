// One kernel launch of a program: first as data (which kernel, what goes into its argument, how many blocks for a step
// of a given size), which is what lowering makes and tests can read; then with a place in memory that does not move,
// which a launch copies from and a captured graph has copied.

import type { WeightId } from "../../../graph/operation.js";
import type { RowSymbol } from "../../../graph/program.js";
import type { ArgumentValue, KernelArguments } from "../kernels/argument-layout.js";
import type { GpuDevice, LaunchShape, StreamHandle } from "../drivers/shared/driver.js";
import type { Defines } from "../kernels/kernel-source.js";
import type { KernelStore, LoadedKernel } from "../kernels/kernel-store.js";
import type { KernelChoices, TunedVariant } from "./kernel-choices.js";
import type { StepCounts } from "./step-layout.js";

/** Where something is, before addresses are known. */
export type MemoryPlace =
  | { readonly space: "scratch" | "blas" | "step" | "constants"; readonly byteOffset: number }
  | { readonly space: "weight"; readonly weight: WeightId };

export type Grid = readonly [x: number, y: number, z: number];

/** Counts of a step, or of the bucket it falls in. */
export interface LaunchSize extends Readonly<StepCounts> {
  /** Splits of attention over the longest sequence. */
  readonly splits: number;
}

/** One of the kernels that a launch chooses from by step size; all of them have one argument struct. */
export interface LaunchVariant {
  readonly kernel: string;
  readonly defines: Defines;
  readonly sharedBytes?: number;
  /** The choice that its defines and grid come from; absent if it has no free parameters. */
  readonly tuned?: TunedVariant;
  /** What it writes, if the launch's other variants do not write the same. */
  readonly results?: readonly LaunchResult[];
}

/** Rows that a launch writes, so that variants of it can be compared. */
export interface LaunchResult {
  readonly place: MemoryPlace;
  /** Floats, halves, quantized values, or sums of quantized values. */
  readonly type: "f32" | "f16" | "i8" | "sums";
  /** Which count of the step is the number of rows. */
  readonly rows: RowSymbol;
  readonly rowBytes: number;
  readonly strideBytes: number;
}

export interface LaunchSpec {
  /** Human-readable: what it computes. */
  readonly label: string;
  /** kernels/<file>.hip */
  readonly file: string;
  readonly variants: readonly LaunchVariant[];
  /** Which variant a step of this size takes; the first where this is absent. */
  readonly choose?: (size: LaunchSize) => number;
  readonly arguments: Readonly<Record<string, ArgumentValue | MemoryPlace>>;
  /** Arguments that depend on the step's size. */
  readonly sized?: (size: LaunchSize) => Readonly<Record<string, ArgumentValue>>;
  /** A grid with a zero in it is not launched. */
  readonly grid: (size: LaunchSize) => Grid;
  /** The choice that a step's grid comes from, if its variant does not say so. */
  readonly tunedFor?: (size: LaunchSize) => TunedVariant | undefined;
  /** What it writes; of launches with tuned variants only. */
  readonly results?: readonly LaunchResult[];
  /** The same launch with other choices of kernel parameters; of launches with tuned variants only. */
  readonly recut?: (choices: KernelChoices) => LaunchSpec;
  /** Waits for everything before it: its kernel reads early what more than the launch before may write. */
  readonly alone?: boolean;
}

export type Addresses = (place: MemoryPlace) => bigint;

export function isNeeded({ grid }: LaunchSpec, size: LaunchSize): boolean {
  const [x, y, z] = grid(size);
  return x > 0 && y > 0 && z > 0;
}

/** The variant that a step of this size takes. */
export function variantFor({ variants, choose }: LaunchSpec, size: LaunchSize): LaunchVariant {
  return variants[choose?.(size) ?? 0];
}

/** The choice that decides how a step of this size is cut. */
export function tunedFor(spec: LaunchSpec, size: LaunchSize): TunedVariant | undefined {
  return spec.tunedFor?.(size) ?? variantFor(spec, size).tuned;
}

/** What a launch writes in a step of this size. */
export function resultsFor(spec: LaunchSpec, size: LaunchSize): readonly LaunchResult[] {
  return variantFor(spec, size).results ?? spec.results ?? [];
}

/** The launch in steps that `wanted` names, and nothing in the others. */
export function onlyIf(wanted: (step: LaunchSize) => boolean, launch: LaunchSpec): LaunchSpec {
  return { ...launch, grid: (size) => (wanted(size) ? launch.grid(size) : [0, 0, 0]) };
}

/** Loads the kernel of one variant. */
export async function loadVariant(spec: LaunchSpec, choice: number, store: KernelStore): Promise<LoadedKernel> {
  const { kernel, defines } = spec.variants[choice];
  return (await store.module(spec.file, defines)).kernel(kernel);
}

interface LoadedVariant {
  readonly kernel: LoadedKernel;
  readonly shape: MutableShape;
}

interface MutableShape extends LaunchShape {
  readonly grid: [number, number, number];
  dependent: boolean;
}

export class Launch {
  readonly spec: LaunchSpec;
  readonly weights: readonly WeightId[];
  readonly #variants: (LoadedVariant | undefined)[];
  #arguments: KernelArguments | undefined;
  #isBound = false;

  constructor(spec: LaunchSpec) {
    this.spec = spec;
    this.weights = Object.values(spec.arguments).flatMap((value) =>
      typeof value === "object" && value.space === "weight" ? [value.weight] : [],
    );
    this.#variants = spec.variants.map(() => undefined);
  }

  /** Whether addresses are in the argument. */
  get isBound(): boolean {
    return this.#isBound;
  }

  isLoaded(size: LaunchSize): boolean {
    return this.#variants[this.spec.choose?.(size) ?? 0] !== undefined;
  }

  async load(size: LaunchSize, store: KernelStore, device: GpuDevice): Promise<void> {
    const choice = this.spec.choose?.(size) ?? 0;
    const kernel = await loadVariant(this.spec, choice, store);
    const { sharedBytes = 0 } = this.spec.variants[choice];
    if (sharedBytes > 0) device.allowSharedBytes(kernel.handle, sharedBytes);
    this.#arguments ??= kernel.createArguments();
    this.#variants[choice] = {
      kernel,
      shape: { grid: [0, 0, 0], threads: kernel.threads, sharedBytes, dependent: true },
    };
  }

  /** Writes the whole argument; after `load`. */
  bind(addresses: Addresses, size: LaunchSize): void {
    const values: Record<string, ArgumentValue> = {};
    for (const [name, value] of Object.entries(this.spec.arguments))
      values[name] = typeof value === "object" ? addresses(value) : value;
    this.#arguments?.set({ ...values, ...this.spec.sized?.(size) });
    this.#isBound = true;
  }

  unbind(): void {
    this.#isBound = false;
  }

  /** After `load` and `bind`. `dependent`: may start while the launch before it drains. */
  run(device: GpuDevice, size: LaunchSize, stream: StreamHandle, dependent: boolean): void {
    const variant = this.#variants[this.spec.choose?.(size) ?? 0];
    if (variant === undefined || this.#arguments === undefined || !this.#isBound)
      throw new TypeError(`${this.spec.label} is not ready to be launched`);
    if (this.spec.sized !== undefined) this.#arguments.update(this.spec.sized(size));
    const { shape, kernel } = variant;
    const [x, y, z] = this.spec.grid(size);
    shape.grid[0] = x;
    shape.grid[1] = y;
    shape.grid[2] = z;
    shape.dependent = dependent && this.spec.alone !== true;
    device.launch(kernel.handle, shape, this.#arguments.block, stream);
  }
}
