// Tries candidates for one kernel of a step on the device: compiles them, compares their results with those of the
// present parameters, and times them. What is timed are the launches of all layers one after another, each with its own
// weights, so that weights come from memory as they do in a step; inputs and outputs are those of the first layer.

import { GpuError } from "../../../errors.js";
import type { DeviceAddress, EventHandle, GraphHandle } from "../drivers/shared/driver.js";
import type { KernelStore } from "../kernels/kernel-store.js";
import { choiceName, type KernelChoices, type TunedVariant } from "../lowering/kernel-choices.js";
import type { KernelParameters } from "../lowering/kernel-families.js";
import {
  isNeeded,
  Launch,
  type LaunchResult,
  type LaunchSpec,
  type MemoryPlace,
  resultsFor,
  tunedFor,
} from "../lowering/launch.js";
import { captured, MAX_GRAPH_LAUNCHES } from "./graphs.js";
import { keyOf, type SearchBench, type SearchSpace } from "../../parameter-search.js";
import { areSameResults } from "./result-comparison.js";
import { hostAt, type StepMemory } from "./step-memory.js";
import type { LaunchRunner } from "./step-plan.js";
import type { StepSession } from "./step-session.js";
import { triedNeighbours } from "./tried-neighbours.js";
import type { TuningHost, TuningStep } from "./tuning-step.js";

/** Launches of one measurement, at least: fewer take less time than the clock tells apart. */
const MIN_LAUNCHES = 8;
const MAX_LAUNCHES = 120;
/** What results are filled with before a candidate writes them: NaN. */
const POISON_BYTE = 0xff;

/** A kernel of a step with free parameters, and where it occurs. */
export interface TunableKernel {
  /** As choices are named. */
  readonly name: string;
  readonly tuned: TunedVariant;
  /** Places among the launches of the step. */
  readonly indices: readonly number[];
}

/** The kernels of a step whose parameters can be chosen, in order. */
export function tunableKernels({ specs, size }: TuningStep): readonly TunableKernel[] {
  const found = new Map<string, { readonly tuned: TunedVariant; readonly indices: number[] }>();
  for (const [index, spec] of specs.entries()) {
    const tuned = tunedFor(spec, size);
    if (tuned === undefined || spec.recut === undefined || !isNeeded(spec, size)) continue;
    const name = choiceName(tuned.family, tuned.key);
    const known = found.get(name);
    if (known === undefined) found.set(name, { tuned, indices: [index] });
    else known.indices.push(index);
  }
  return Array.from(found, ([name, { tuned, indices }]) => ({ name, tuned, indices }));
}

/** What a search starts from, and where it may go. */
export function searchSpaceOf({ tuned }: TunableKernel, choices: KernelChoices): SearchSpace {
  const { parameters: start } = tuned;
  return {
    start,
    neighbours: (from, round) => triedNeighbours(tuned, choices, from, round),
    isValid: (parameters) => tuned.isValid(parameters),
  };
}

export interface TuningBenchOptions {
  /** Where candidates are loaded; apart from the program's own kernels, so that they can be unloaded. */
  readonly kernels: KernelStore;
  /** Candidates that are compiled at the same time. */
  readonly compilations: number;
  readonly graphs: boolean;
  isOver(): boolean;
  /** Resolves with the work, or with undefined when the time is up. */
  unlessOver<Result>(work: Promise<Result>): Promise<Result | undefined>;
}

interface Candidate {
  /** One for each layer. */
  readonly launches: readonly Launch[];
  graph: GraphHandle | undefined;
}

/** Compiles, checks and times candidates for one kernel. */
export class TuningBench implements SearchBench, Disposable {
  readonly #host: TuningHost;
  readonly #step: TuningStep;
  readonly #kernel: TunableKernel;
  readonly #options: TuningBenchOptions;
  readonly #candidates = new Map<string, Candidate>();
  /** What the present parameters compute, in the order of the launch's results. */
  #reference: readonly Uint8Array[] | undefined;
  /** Addresses that graphs contain. */
  #addresses = "";
  #events: readonly [EventHandle, EventHandle] | undefined;

  constructor(host: TuningHost, step: TuningStep, kernel: TunableKernel, options: TuningBenchOptions) {
    this.#host = host;
    this.#step = step;
    this.#kernel = kernel;
    this.#options = options;
  }

  isOver(): boolean {
    return this.#options.isOver() || !this.#host.runtime.isUsable;
  }

  async usable(candidates: readonly KernelParameters[]): Promise<readonly KernelParameters[]> {
    const usable: KernelParameters[] = [];
    const { compilations } = this.#options;
    for (let from = 0; from < candidates.length; from += compilations) {
      const some = candidates.slice(from, from + compilations);
      const loading = Promise.all(some.map((parameters) => this.#load(parameters)));
      const loaded = await this.#options.unlessOver(loading);
      for (const [index, parameters] of some.entries()) {
        if (this.isOver() || loaded === undefined) return [];
        if (loaded[index] && (await this.#isRight(parameters))) usable.push(parameters);
        else this.#forget(parameters);
      }
    }
    return usable;
  }

  async time(parameters: KernelParameters): Promise<number> {
    if (!this.#candidates.has(keyOf(parameters)) && !(await this.#load(parameters))) return Number.POSITIVE_INFINITY;
    return await this.#at(async (session, runner) => {
      const { device } = this.#host.runtime;
      this.#dropMovedGraphs(session.memory);
      const candidate = this.#candidates.get(keyOf(parameters));
      if (candidate === undefined) return Number.POSITIVE_INFINITY;
      const launches = await this.#bound(candidate, runner);
      const run = this.#runner(candidate, launches, runner);
      this.#events ??= [device.createEvent({ timed: true }), device.createEvent({ timed: true })];
      const [start, end] = this.#events;
      // The first run hides how long the host takes to queue the second.
      run();
      device.record(start, runner.stream);
      run();
      device.record(end, runner.stream);
      await device.whenDone(end);
      return (device.elapsedMs(start, end) * 1000) / launches.length;
    });
  }

  [Symbol.dispose](): void {
    const { runtime } = this.#host;
    for (const candidate of this.#candidates.values()) this.#dropGraph(candidate);
    this.#candidates.clear();
    const events = this.#events;
    this.#events = undefined;
    if (events !== undefined) runtime.release(() => events.forEach((event) => runtime.device.destroyEvent(event)));
  }

  /** Runs `work` where the kernel's first launch would be. */
  #at<Result>(work: (session: StepSession, runner: LaunchRunner) => Promise<Result>): Promise<Result> {
    return this.#step.upTo(this.#kernel.indices[0], work);
  }

  /** Lowers the step with these parameters and loads their kernel; false if that is not possible. */
  async #load(parameters: KernelParameters): Promise<boolean> {
    const { runtime, context } = this.#host;
    const { name, tuned, indices } = this.#kernel;
    const { size } = this.#step;
    const { specs } = this.#step;
    const choices = context.choices.with(new Map([[name, parameters]]));
    const recut = specs[indices[0]].recut?.(choices);
    const found = recut === undefined ? undefined : tunedFor(recut, size);
    if (recut === undefined || found?.key !== tuned.key || keyOf(found.parameters) !== keyOf(parameters)) return false;
    const first = choices.careful(recut);
    const launches = indices.map((index) => new Launch(withWeightsOf(first, specs[index])));
    try {
      await Promise.all(launches.map((launch) => launch.load(size, this.#options.kernels, runtime.device)));
    } catch {
      // Too many registers, a compiler that gave up: such a candidate is not used.
      return false;
    }
    this.#candidates.set(keyOf(parameters), { launches, graph: undefined });
    return true;
  }

  /** Whether a candidate computes what the present parameters compute. */
  async #isRight(parameters: KernelParameters): Promise<boolean> {
    // Then no parameter is free that reorders sums. Otherwise another variant may round elsewhere: a compiler contracts
    // other multiplications, a norm is summed by more threads.
    const { deterministic: isExact } = this.#host.context.options;
    try {
      this.#reference ??= await this.#results(this.#kernel.tuned.parameters);
      const found = await this.#results(parameters);
      const reference = this.#reference;
      return this.#written.every(({ type }, index) => areSameResults(type, reference[index], found[index], isExact));
    } catch (error) {
      // A launch that the driver refuses says so at once; a lost device ends the search.
      if (!(error instanceof GpuError)) throw error;
      return false;
    }
  }

  get #written(): readonly LaunchResult[] {
    return resultsFor(this.#step.specs[this.#kernel.indices[0]], this.#step.size);
  }

  /** What the first launch writes with these parameters: all rows, or evenly spaced ones if there are many. */
  async #results(parameters: KernelParameters): Promise<readonly Uint8Array[]> {
    const { runtime } = this.#host;
    if (!this.#candidates.has(keyOf(parameters)) && !(await this.#load(parameters))) return [];
    return await this.#at(async (session, runner) => {
      const candidate = this.#candidates.get(keyOf(parameters));
      if (candidate === undefined) return [];
      const [launch] = await this.#bound(candidate, runner, 1);
      for (const result of this.#written) this.#poison(launch.spec, result, runner);
      launch.run(runtime.device, this.#step.size, runner.stream, false);
      const found: Uint8Array[] = [];
      for (const result of this.#written) found.push(await this.#read(result, session, runner));
      return found;
    });
  }

  /** A launch that writes nothing must not find the right results in memory. Sums that are added to are left alone. */
  #poison(
    { arguments: values }: LaunchSpec,
    { place, rows, rowBytes, strideBytes }: LaunchResult,
    runner: LaunchRunner,
  ): void {
    const uses = Object.values(values).filter((value) => typeof value === "object" && isSamePlace(value, place)).length;
    const count = this.#step.size[rows];
    if (uses !== 1 || count === 0) return;
    const { device } = this.#host.runtime;
    const address = runner.addressOf(place);
    if (rowBytes === strideBytes)
      return device.fill(address as DeviceAddress, POISON_BYTE, count * rowBytes, runner.stream);
    for (let row = 0; row < count; row++)
      device.fill((address + BigInt(row * strideBytes)) as DeviceAddress, POISON_BYTE, rowBytes, runner.stream);
  }

  async #read(
    { place, rows, rowBytes, strideBytes }: LaunchResult,
    session: StepSession,
    { addressOf, stream }: LaunchRunner,
  ): Promise<Uint8Array> {
    const pinned = session.memory.rows;
    const count = this.#step.size[rows];
    const read = Math.min(count, Math.floor(pinned.bytes.byteLength / rowBytes));
    for (let index = 0; index < read; index++) {
      const row = read === 1 ? 0 : Math.floor((index * (count - 1)) / (read - 1));
      const source = (addressOf(place) + BigInt(row * strideBytes)) as DeviceAddress;
      this.#host.runtime.device.copyToHost(hostAt(pinned, index * rowBytes), source, rowBytes, stream);
    }
    await session.finished();
    return pinned.bytes.slice(0, read * rowBytes);
  }

  /** The launches of a measurement with their addresses: each layer's once, or several times if there are few. */
  async #bound({ launches }: Candidate, runner: LaunchRunner, most = MAX_LAUNCHES): Promise<readonly Launch[]> {
    const used = launches.slice(0, most);
    for (const launch of used) {
      const coming = runner.bring(launch.weights);
      if (coming !== undefined) await coming;
      launch.bind((place) => runner.addressOf(place), this.#step.size);
    }
    const repeats = Math.max(1, Math.min(Math.ceil(MIN_LAUNCHES / used.length), Math.floor(most / used.length)));
    return Array.from({ length: repeats }, () => used).flat();
  }

  /** Queues the launches, as a graph if the driver can: then the host takes no part in their time. */
  #runner(candidate: Candidate, launches: readonly Launch[], { stream }: LaunchRunner): () => void {
    const { runtime } = this.#host;
    const { device } = runtime;
    const queue = (): void => {
      for (const [index, launch] of launches.entries()) launch.run(device, this.#step.size, stream, index > 0);
    };
    const isGraph =
      this.#options.graphs && runtime.mayUse("graphs") && launches.length <= MAX_GRAPH_LAUNCHES[device.kind];
    if (!isGraph) return queue;
    const graph = (candidate.graph ??= captured(device, stream, queue));
    return () => device.launchGraph(graph, stream);
  }

  #forget(parameters: KernelParameters): void {
    const candidate = this.#candidates.get(keyOf(parameters));
    if (candidate !== undefined) this.#dropGraph(candidate);
    this.#candidates.delete(keyOf(parameters));
  }

  #dropMovedGraphs(memory: StepMemory): void {
    const addresses = `${this.#host.runtime.departures} ${memory.address({ space: "step", byteOffset: 0 })}`;
    if (addresses !== this.#addresses) for (const each of this.#candidates.values()) this.#dropGraph(each);
    this.#addresses = addresses;
  }

  #dropGraph(candidate: Candidate): void {
    const { graph } = candidate;
    candidate.graph = undefined;
    const { runtime } = this.#host;
    if (graph !== undefined) runtime.release(() => runtime.device.destroyGraph(graph));
  }
}

/** The launch of another layer with this one's inputs and outputs. */
function withWeightsOf(first: LaunchSpec, other: LaunchSpec): LaunchSpec {
  const weights = Object.entries(other.arguments).filter(
    ([, value]) => typeof value === "object" && value.space === "weight",
  );
  return { ...first, arguments: { ...first.arguments, ...Object.fromEntries(weights) } };
}

function isSamePlace(left: MemoryPlace, right: MemoryPlace): boolean {
  if (left.space === "weight" || right.space === "weight") return false;
  return left.space === right.space && left.byteOffset === right.byteOffset;
}
