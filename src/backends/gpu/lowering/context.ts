// What every part of the lowering shares: the program, its size limits, and where values lie.

import type { FusedProgram, Group } from "../../../graph/fusion.js";
import { kvGroups, kvPlaces } from "../../../graph/cache-groups.js";
import { inputsOf, type StateId, type ValueId, type WeightId } from "../../../graph/operation.js";
import type { RowSymbol, Value } from "../../../graph/program.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { ProgramLimits } from "../../contract.js";
import type { DriverKind, GpuProperties } from "../drivers/shared/driver.js";
import type { LaunchSize, MemoryPlace } from "./launch.js";
import { type GroupField, StepLayout, type StepField } from "./step-layout.js";
import { TILE_TOKENS } from "../memory/kv-layout.js";
import { stateSlotLayout } from "../memory/state-layout.js";
import { KernelChoices } from "./kernel-choices.js";
import { FLOAT_BYTES, type Regions, planRegions } from "./regions.js";
import { shifted } from "./scratch.js";
import type { BatchClass } from "./matmul-selection.js";

export interface GpuLoweringOptions {
  readonly fused: FusedProgram;
  readonly weights: readonly TensorDescriptor[];
  readonly limits: ProgramLimits;
  readonly device: Pick<GpuProperties, "waveSize" | "multiprocessors" | "sharedBytes" | "totalBytes"> &
    Partial<Pick<GpuProperties, "architecture">>;
  readonly kind: DriverKind;
  readonly deterministic: boolean;
  /** Parameters of kernels that were chosen for the device; absent: the formulas'. */
  readonly choices?: KernelChoices;
}

/** A value as kernels see it. */
export interface ValuePlace {
  readonly place: MemoryPlace;
  /** Floats from one row to the next. */
  readonly stride: number;
  readonly width: number;
  readonly rows: RowSymbol;
  /** Floats from the results of one slot to those of the next, if a grouped matmul leaves room between them. */
  readonly slotStride?: number;
}

/** Offsets of the counts in `StepHead`, kernels/device/step.h. */
const COUNT_OFFSETS: Readonly<Record<RowSymbol, number>> = { tokens: 0, outputs: 8, scored: 12 };

/** Rows of steps that captured graphs serve. */
const MAX_COMPACT_ROWS = 64;

/** Floats that kernels read, and where each rope table's stretches begin among them. */
export interface Constants {
  readonly floats: Float32Array<ArrayBuffer>;
  readonly stretches: readonly number[];
}

/** What lowering knows of a program, whatever the size of a step and the parameters of kernels. */
interface Analysis {
  readonly regions: Regions;
  /** Groups that read each value, itself or through a view, by the value whose memory it is. */
  readonly readers: ReadonlyMap<ValueId, readonly number[]>;
  readonly routed: ReadonlySet<ValueId>;
}

function analysed(options: GpuLoweringOptions): Analysis {
  return { regions: planRegions(options), readers: readersOf(options.fused), routed: routedIn(options.fused) };
}

/** Where a program's parts lie: the same for steps of every size. */
export class LoweringContext {
  readonly options: GpuLoweringOptions;
  readonly regions: Regions;
  readonly choices: KernelChoices;
  readonly step: StepLayout;
  /** The same for steps of few tokens, whose arrays lie close together and are copied in no time. */
  readonly compact: LoweringContext;
  readonly constants: Float32Array<ArrayBuffer>;
  readonly #stretches: readonly number[];
  /** The cache group of each layer. */
  readonly #groups: readonly number[];
  readonly #analysis: Analysis;
  readonly #most: number;

  /** `analysis` of the same program, if it is known; `most` rows of a step. */
  constructor(
    options: GpuLoweringOptions,
    constants: Constants,
    analysis: Analysis = analysed(options),
    most = Number.POSITIVE_INFINITY,
  ) {
    this.options = options;
    this.#analysis = analysis;
    this.#most = most;
    this.regions = analysis.regions;
    this.choices = options.choices ?? new KernelChoices(options);
    const [tokens, outputs] = [Math.min(options.limits.maxTokens, most), Math.min(options.limits.maxOutputs, most)];
    const places = kvPlaces(kvGroups(options.fused.program.kv));
    this.#groups = places.map(({ group }) => group);
    this.step = new StepLayout({
      tokens,
      outputs,
      tileTokens: TILE_TOKENS,
      groups: Math.max(1, ...this.#groups.map((group) => group + 1)),
      states: options.fused.program.kv.states !== undefined,
    });
    this.constants = constants.floats;
    this.#stretches = constants.stretches;
    const isCompact = most === MAX_COMPACT_ROWS;
    this.compact = isCompact
      ? this
      : new LoweringContext({ ...options, choices: this.choices }, constants, analysis, MAX_COMPACT_ROWS);
  }

  /** The same program and places with other choices of kernel parameters: for trying candidates. */
  withChoices(choices: KernelChoices): LoweringContext {
    const constants = { floats: this.constants, stretches: this.#stretches };
    return new LoweringContext({ ...this.options, choices }, constants, this.#analysis, this.#most);
  }

  /** The compact context if it holds this many rows, else this one. */
  holding({ tokens, outputs }: { readonly tokens: number; readonly outputs: number }): LoweringContext {
    return tokens <= MAX_COMPACT_ROWS && outputs <= MAX_COMPACT_ROWS ? this.compact : this;
  }

  get values(): readonly Value[] {
    return this.options.fused.program.values;
  }

  matrix(id: ValueId): ValuePlace {
    const value = this.values[id];
    const slot = this.options.fused.memory.slotOf[id];
    if (slot < 0) throw new TypeError(`${value.name} has no memory of its own`);
    const stride = value.base === undefined ? value.width : this.values[value.base].width;
    return {
      place: shifted(this.regions.slots[slot], value.columnOffset * FLOAT_BYTES),
      stride,
      width: value.width,
      rows: value.rows,
    };
  }

  /** A field that all cache groups share; the head, for its counts, is the first group's. */
  stepField(field: Exclude<StepField, "cells" | "tableStarts">): MemoryPlace {
    return { space: "step", byteOffset: this.step.offsets[field] };
  }

  /** A field of the cache group that a layer belongs to. */
  groupField(field: GroupField, layer: number): MemoryPlace {
    return { space: "step", byteOffset: this.step.groupOffset(field, this.#groups[layer]) };
  }

  rowCount(rows: RowSymbol): MemoryPlace {
    return { space: "step", byteOffset: this.step.offsets.head + COUNT_OFFSETS[rows] };
  }

  stretches(rope: number): MemoryPlace {
    return { space: "constants", byteOffset: this.#stretches[rope] * FLOAT_BYTES };
  }

  /** What kernels find a recurrent state with (kernels/recurrent/state.h). */
  stateArguments(state: StateId): Readonly<Record<string, MemoryPlace | number>> {
    const { byteOffsets, slotBytes } = stateSlotLayout(this.options.fused.program.kv.states);
    return {
      step: this.stepField("head"),
      runs: this.stepField("stateRuns"),
      state_writes: this.stepField("stateWrites"),
      state_offset: byteOffsets[state] / FLOAT_BYTES,
      slot_stride: slotBytes / FLOAT_BYTES,
    };
  }

  /** Whether the only reader of a value is that group. */
  isOnlyReadBy(id: ValueId, groupIndex: number): boolean {
    const { hidden, logits } = this.options.fused.program;
    const readers = this.#analysis.readers.get(id) ?? [];
    return (
      this.values[id].base === undefined &&
      id !== hidden &&
      id !== logits &&
      readers.every((reader) => reader === groupIndex) &&
      readers.length > 0
    );
  }

  /** Whether a value is the logits of a router, or the weight of a shared expert. */
  isRouted(id: ValueId): boolean {
    return this.#analysis.routed.has(id);
  }

  weight(id: WeightId | undefined): MemoryPlace | number {
    return id === undefined ? 0 : { space: "weight", weight: id };
  }

  typeOf(id: WeightId): number {
    return this.options.weights[id].layout.id;
  }
}

/** The class of step sizes that launches are made for. */
export interface LoweringSize {
  readonly tokens: BatchClass;
  readonly outputs: BatchClass;
  /** Whether large matmuls go to the BLAS library. */
  readonly blas: boolean;
  /** Whether steps take tiled attention; absent: launches for both cases. */
  readonly tiled?: boolean;
}

export function classOf(size: LoweringSize, rows: RowSymbol): BatchClass {
  return rows === "tokens" ? size.tokens : size.outputs;
}

export function rowsOf(size: LaunchSize, rows: RowSymbol): number {
  return size[rows];
}

function readersOf({ program, groups }: FusedProgram): ReadonlyMap<ValueId, readonly number[]> {
  const readers = new Map<ValueId, number[]>();
  for (const [index, group] of groups.entries()) {
    for (const root of rootsRead(group, program.values)) readers.set(root, [...(readers.get(root) ?? []), index]);
  }
  return readers;
}

function rootsRead({ parts }: Group, values: readonly Value[]): ReadonlySet<ValueId> {
  return new Set(parts.flatMap((part) => inputsOf(part)).map((id) => values[id].base ?? id));
}

/** The values that routers read, and the weights of shared experts, which the same launches compute. */
function routedIn({ program, experts }: FusedProgram): ReadonlySet<ValueId> {
  return new Set([
    ...program.operations.flatMap((operation) => (operation.kind === "route-experts" ? [operation.input] : [])),
    ...experts.flatMap(({ shared }) => shared?.weight?.out ?? []),
  ]);
}
