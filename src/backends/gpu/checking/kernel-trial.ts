// One fragment of a program with one size of step, computed by the device and by a CPU. The CPU's results are computed
// once, the device's as often as kernels are exchanged.

import type { Fragment } from "../../../graph/fragments.js";
import { RandomSource } from "../../../sampler/rng.js";
import { layoutByName } from "../../../quant/layout.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { DeviceTensor } from "../../../tensor/device-tensor.js";
import { LazyTensor } from "../../../tensor/lazy-tensor.js";
import type { Program } from "../../../graph/program.js";
import type {
  CompiledProgram,
  KvCache,
  KvCacheOptions,
  OutputRow,
  ProgramLimits,
  TensorSource,
} from "../../contract.js";
import type { Backend } from "../../contract.js";
import { largestError } from "../../row-error.js";
import type { GpuProgram } from "../execution/program.js";
import type { UsedModule } from "../execution/step-plan.js";
import type { KernelChoices } from "../lowering/kernel-choices.js";
import { layoutOf } from "../memory/upload.js";
import { OUTPUT_WANTS, outputFault } from "../../output-check.js";
import { type CheckShape, type CheckSteps, checkSteps, wanting } from "./check-steps.js";

/**
 * The largest squared error over squared size, with quantized weights: activations are quantized to 8 bits in some matmuls
 * and rounded to f16 in others, each side chooses by itself, and a block has two or three matmuls in a row. Right kernels
 * are off by up to 1.2e-4 on the emulated device.
 */
const QUANTIZED_TOLERANCE = 2e-3;
/** The same with plain floats, which are rounded to f16 at most: right kernels are off by up to 3e-6. */
const PLAIN_TOLERANCE = 1e-4;
/** Share of rows of a mixture of experts in which two experts may be equally likely. */
const NEAR_CHOICES = 1 / 8;
const PLAIN_TYPES: ReadonlySet<string> = new Set(["F32", "F16", "BF16"]);
const FLOAT_BYTES = 4;

/** What a trial needs of the device's backend and of the program that is checked. */
export interface TrialHost {
  /** The weights of the whole program. */
  readonly weights: readonly LazyTensor[];
  readonly limits: ProgramLimits;
  /** Whether steps have a BLAS library; absent: no. */
  readonly blas?: boolean;
  /** `choices` are the device's own if there are none. */
  compile(
    program: Program,
    weights: readonly LazyTensor[],
    limits: ProgramLimits,
    options: { readonly choices: KernelChoices | undefined; readonly blas: boolean },
  ): GpuProgram;
  upload(source: TensorSource): Promise<DeviceTensor>;
  /** Where a tensor of the device came from. */
  sourceOf(tensor: DeviceTensor): TensorSource | undefined;
  createKvCache(options: KvCacheOptions): KvCache;
}

/** What is wrong with results. */
export interface TrialFault {
  /** Human-readable. */
  readonly text: string;
  /** Squared error over squared size of the worst row; infinite if there is no such number. */
  readonly error: number;
}

/** What one side has computed. */
interface Rounds {
  /** Rows of each round: hidden states, or logits if the fragment has them. */
  readonly rounds: readonly (readonly OutputRow[])[];
  /** Rows of the first round for each of `OUTPUT_WANTS`. */
  readonly answers: readonly (readonly OutputRow[])[];
}

/** Whether the rows of a round are right. */
type RoundJudge = (round: number, rows: readonly OutputRow[]) => Promise<boolean>;

/** A fragment and a step of it. */
export class KernelTrial {
  readonly fragment: Fragment;
  readonly #host: TrialHost;
  readonly #steps: CheckSteps;
  /** The contents of each table of inputs, by its weight. */
  readonly #tables = new Map<number, Float32Array>();
  #expected: Promise<Rounds> | undefined;

  constructor(host: TrialHost, fragment: Fragment, shape: CheckShape) {
    this.fragment = fragment;
    this.#host = host;
    const random = new RandomSource(shape.tokens);
    this.#steps = checkSteps(fragment, shape, host.limits, () => random.next());
  }

  /** All modules that it runs with these choices; the device's own if there are none. */
  modules(choices?: KernelChoices): readonly UsedModule[] {
    using program = this.#compile(choices, this.#descriptorsOnly());
    const modules = this.#steps.sizes.flatMap((size) => program.modulesFor(size));
    return [...new Map(modules.map((module) => [module.name, module])).values()];
  }

  /** Whether some of its weights were repacked when they were uploaded, by a kernel that no step launches. */
  get hasRepackedWeights(): boolean {
    return this.fragment.weights.some((weight) => {
      const descriptor = weight === undefined ? undefined : this.#host.weights[weight].descriptor;
      return descriptor !== undefined && descriptor.onHost !== true && layoutOf(descriptor).repacked;
    });
  }

  /** Computes on both sides and compares; undefined if results are right. */
  async fault(oracle: () => Promise<Backend>, choices?: KernelChoices): Promise<TrialFault | undefined> {
    this.#expected ??= this.#compute(await oracle());
    // The device's failure is reported first.
    this.#expected.catch(() => {});
    const expected = this.#expected;
    const faults: TrialFault[] = [];
    const { rounds, answers } = await this.#onDevice(choices, async (round, rows) => {
      faults.push(...this.#wrongRows(round, rows, (await expected).rounds[round]));
      return faults.length <= this.#allowedRows;
    });
    if (faults.length > this.#allowedRows)
      return faults.reduce((worst, each) => (each.error > worst.error ? each : worst));
    const text = answers.length === 0 ? undefined : outputFault(rounds[0], answers);
    return text === undefined ? undefined : { text, error: Number.POSITIVE_INFINITY };
  }

  #wrongRows(round: number, found: readonly OutputRow[], expected: readonly OutputRow[]): readonly TrialFault[] {
    const { tokens, outputs } = this.#steps.rounds[round].step;
    return expected.flatMap((wanted, index): readonly TrialFault[] => {
      const { row } = outputs[index];
      const { error } = largestError([found[index]], [wanted], () => this.#residualsOf(tokens[row]));
      if (error <= this.#tolerance) return [];
      const size = Number.isFinite(error) ? `off by ${(Math.sqrt(error) * 100).toPrecision(3)} %` : "not finite";
      return [{ text: `row ${row} of ${tokens.length} is ${size}`, error }];
    });
  }

  /** Rows that may be wrong: of two experts that are all but equally likely, each side may choose another. */
  get #allowedRows(): number {
    const { program } = this.fragment;
    if (!program.operations.some(({ kind }) => kind === "route-experts")) return 0;
    const rows = this.#steps.rounds.reduce((sum, { step }) => sum + step.outputs.length, 0);
    return Math.floor(rows * NEAR_CHOICES);
  }

  async #onDevice(choices: KernelChoices | undefined, isRight: RoundJudge): Promise<Rounds> {
    const weights = this.fragment.weights.map((weight, id) =>
      weight === undefined ? this.#table(id, (source) => this.#host.upload(source)) : this.#host.weights[weight],
    );
    const program = this.#compile(choices, weights);
    try {
      const cache = this.#cache((options) => this.#host.createKvCache(options));
      try {
        return await this.#rows(program, cache, { whole: true, isRight });
      } finally {
        cache?.[Symbol.dispose]();
      }
    } finally {
      await program.ended();
      for (const [id, weight] of this.fragment.weights.entries()) if (weight === undefined) weights[id].evict();
    }
  }

  async #compute(oracle: Backend): Promise<Rounds> {
    const weights = await Promise.all(
      this.fragment.weights.map((weight, id) =>
        weight === undefined ? this.#table(id, (source) => oracle.upload(source)) : this.#copyFor(oracle, weight),
      ),
    );
    try {
      using program = oracle.compile(this.fragment.program, weights, this.#steps.limits);
      using cache = this.#cache((options) => oracle.createKvCache(options));
      return await this.#rows(program, cache, { whole: false, isRight: async () => true });
    } finally {
      for (const weight of weights) weight.evict();
    }
  }

  /** The rows of all rounds, and of the first one for each further kind of output; ends with a round that is wrong. */
  async #rows(
    program: CompiledProgram,
    cache: KvCache | undefined,
    { whole, isRight }: { readonly whole: boolean; readonly isRight: RoundJudge },
  ): Promise<Rounds> {
    const { before } = this.#steps;
    const steps = this.#steps.rounds.map(({ step, needed }) => (whole ? step : needed));
    if (before !== undefined) await program.run(before, cache);
    const rounds: (readonly OutputRow[])[] = [];
    const answers: (readonly OutputRow[])[] = [];
    const hasLogits = this.fragment.program.logits !== undefined;
    for (const step of steps) {
      const rows = await program.run(hasLogits ? wanting(step, { kind: "logits" }) : step, cache);
      if (!(await isRight(rounds.push(rows) - 1, rows))) return { rounds, answers };
    }
    // Fragments with logits have no cache that a step could find changed.
    for (const want of hasLogits && whole ? OUTPUT_WANTS : [])
      answers.push(await program.run(wanting(steps[0], want), cache));
    return { rounds, answers };
  }

  #compile(choices: KernelChoices | undefined, weights: readonly LazyTensor[]): GpuProgram {
    return this.#host.compile(this.fragment.program, weights, this.#steps.limits, {
      choices,
      blas: this.#host.blas ?? false,
    });
  }

  #cache(create: (options: KvCacheOptions) => KvCache): KvCache | undefined {
    if (!this.fragment.needsCache) return undefined;
    const { blocks, stateSlots, limits } = this.#steps;
    const { blockTokens, kvCacheType: type } = limits;
    return create({ ...this.fragment.program.kv, blocks, blockTokens, stateSlots, type });
  }

  /** The weight for another backend, from where the device's own came from. */
  async #copyFor(oracle: Backend, weight: number): Promise<LazyTensor> {
    const tensor = await this.#host.weights[weight].load();
    const source = this.#host.sourceOf(tensor);
    if (source === undefined) throw new TypeError(`the origin of ${tensor.descriptor.name} is not known`);
    return new LazyTensor(source.descriptor, () => oracle.upload(source));
  }

  #table(id: number, upload: (source: TensorSource) => Promise<DeviceTensor>): LazyTensor {
    const descriptor = this.#descriptor(id);
    const values = this.#contents(id);
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    const source: TensorSource = {
      descriptor,
      read: async (target, byteOffset) => target.set(bytes.subarray(byteOffset, byteOffset + target.length)),
      mappedLocation: () => undefined,
    };
    return new LazyTensor(descriptor, () => upload(source));
  }

  get #tolerance(): number {
    const isPlain = this.fragment.weights.every(
      (weight) => weight === undefined || PLAIN_TYPES.has(this.#host.weights[weight].descriptor.layout.name),
    );
    return isPlain ? PLAIN_TOLERANCE : QUANTIZED_TOLERANCE;
  }

  #descriptor(id: number): TensorDescriptor {
    const { name, shape } = this.fragment.program.weights[id];
    const elements = shape.reduce((total, dimension) => total * dimension, 1);
    return { name, layout: layoutByName("F32"), shape, elements, sizeBytes: elements * FLOAT_BYTES };
  }

  /** Weights that are never loaded: for lowering. */
  #descriptorsOnly(): readonly LazyTensor[] {
    const refuse = (): Promise<never> => Promise.reject(new TypeError("only the descriptor is used"));
    return this.fragment.weights.map((weight, id) =>
      weight === undefined ? new LazyTensor(this.#descriptor(id), refuse) : this.#host.weights[weight],
    );
  }

  /** Inputs of a token that may be part of its result. */
  #residualsOf(token: number): readonly Float32Array[] {
    return this.fragment.residuals.map((id) => {
      const [width] = this.fragment.program.weights[id].shape;
      return this.#contents(id).subarray(token * width, (token + 1) * width);
    });
  }

  #contents(id: number): Float32Array {
    const contents = this.#tables.get(id) ?? randomTable(this.fragment.program.weights[id].shape, new RandomSource(id));
    this.#tables.set(id, contents);
    return contents;
  }
}

/** Bell-shaped numbers of deviation 1. */
function randomTable(shape: readonly number[], random: RandomSource): Float32Array {
  const values = new Float32Array(shape.reduce((total, dimension) => total * dimension, 1));
  for (let index = 0; index < values.length; index++)
    values[index] = 2 * (random.next() + random.next() + random.next()) - 3;
  return values;
}
