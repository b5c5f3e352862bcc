// The time of each kernel of a step: the launches of all layers that run the same kernel are timed in a row, each with its
// own weights, so that weights come from memory as they do in a step. What it does not contain is what launches of
// different kernels lose or gain between each other.

import type { KernelTime } from "../../tuning.js";
import { isNeeded, Launch, type LaunchSpec } from "../lowering/launch.js";
import { captured, MAX_GRAPH_LAUNCHES } from "./graphs.js";
import type { LaunchRunner } from "./step-plan.js";
import { type TuningHost, type TuningSize, TuningStep } from "./tuning-step.js";

/** Launches of one measurement, at least: fewer take less time than the clock tells apart. */
const MIN_LAUNCHES = 16;
const MAX_LAUNCHES = 120;
/** Measurements of a kernel, of which the fastest counts. */
const REPEATS = 3;
/** A stack of matrices has one for each expert, of which a step reads some. */
const MATRIX_RANK = 2;
/** The kernels that read whole matrices. */
const MATMULS = "matmul/";

/** The launches of a step that differ by their layer alone. */
interface KernelGroup {
  readonly label: string;
  readonly kernel: string;
  readonly weights: readonly string[];
  readonly types: readonly string[];
  readonly weightBytes: number | null;
  readonly first: number;
  readonly specs: LaunchSpec[];
}

/** Times the kernels of a step of this size, in the order of their first launches. */
export async function profileStep(
  host: TuningHost,
  size: TuningSize,
  { graphs, signal }: { readonly graphs: boolean; readonly signal?: AbortSignal | undefined },
): Promise<readonly KernelTime[]> {
  using step = new TuningStep(host, size);
  await step.load();
  const times: KernelTime[] = [];
  for (const group of groupsOf(host, step)) {
    signal?.throwIfAborted();
    const { label, kernel, weights, types, weightBytes, specs } = group;
    const microseconds = await timeGroup(host, step, group, graphs);
    times.push({ label, kernel, weights, types, weightBytes, launches: specs.length, microseconds });
  }
  return times;
}

function groupsOf(host: TuningHost, { specs, size }: TuningStep): readonly KernelGroup[] {
  const groups = new Map<string, KernelGroup>();
  for (const [index, spec] of specs.entries()) {
    if (!isNeeded(spec, size)) continue;
    const { kernel, defines } = spec.variants[spec.choose?.(size) ?? 0];
    const tensors = [...new Set(new Launch(spec).weights)].map((weight) => host.weights[weight].descriptor);
    const weights = tensors.map(({ name }) => roleOf(name));
    const key = JSON.stringify([spec.label, spec.file, kernel, defines, weights, spec.grid(size)]);
    const known = groups.get(key);
    if (known !== undefined) {
      known.specs.push(spec);
      continue;
    }
    const isStack = tensors.some(({ shape }) => shape.filter((length) => length > 1).length > MATRIX_RANK);
    const isMatmul = spec.file.startsWith(MATMULS) && tensors.length > 0 && !isStack;
    groups.set(key, {
      label: spec.label,
      kernel: spec.file,
      weights,
      types: [...new Set(tensors.map(({ layout }) => layout.name))],
      weightBytes: isMatmul ? tensors.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) : null,
      first: index,
      specs: [spec],
    });
  }
  return [...groups.values()];
}

/** A tensor's name without its layer. */
function roleOf(name: string): string {
  return name.replace(/^blk\.\d+\./, "").replace(/\.weight$/, "");
}

/** Microseconds of one launch. */
async function timeGroup(
  { runtime }: TuningHost,
  step: TuningStep,
  { specs, first }: KernelGroup,
  graphs: boolean,
): Promise<number> {
  const { device, kernels } = runtime;
  const used = specs.slice(0, MAX_LAUNCHES).map((spec) => new Launch(spec));
  await Promise.all(used.map((launch) => launch.load(step.size, kernels, device)));
  return await step.upTo(first, async (_session, runner) => {
    for (const launch of used) {
      await runner.bring(launch.weights);
      launch.bind((place) => runner.addressOf(place), step.size);
    }
    const rounds = Math.max(1, Math.min(Math.ceil(MIN_LAUNCHES / used.length), Math.floor(MAX_LAUNCHES / used.length)));
    const launches = Array.from({ length: rounds }, () => used).flat();
    const queue = (): void => {
      for (const [index, launch] of launches.entries()) launch.run(device, step.size, runner.stream, index > 0);
    };
    const isGraph = graphs && runtime.mayUse("graphs") && launches.length <= MAX_GRAPH_LAUNCHES[device.kind];
    const milliseconds = isGraph ? await timeGraph(runtime, runner, queue) : await timeRuns(runtime, runner, queue);
    return (milliseconds * 1000) / launches.length;
  });
}

/** As a graph the host takes no part in the time. */
async function timeGraph(runtime: TuningHost["runtime"], runner: LaunchRunner, queue: () => void): Promise<number> {
  const { device } = runtime;
  const graph = captured(device, runner.stream, queue);
  try {
    return await timeRuns(runtime, runner, () => device.launchGraph(graph, runner.stream));
  } finally {
    runtime.release(() => device.destroyGraph(graph));
  }
}

/** Milliseconds of the fastest run. */
async function timeRuns(runtime: TuningHost["runtime"], { stream }: LaunchRunner, run: () => void): Promise<number> {
  const { device } = runtime;
  const [start, end] = [device.createEvent({ timed: true }), device.createEvent({ timed: true })];
  try {
    let fastest = Number.POSITIVE_INFINITY;
    for (let repeat = 0; repeat < REPEATS; repeat++) {
      // The first run hides how long the host takes to queue the second.
      run();
      device.record(start, stream);
      run();
      device.record(end, stream);
      await device.whenDone(end);
      fastest = Math.min(fastest, device.elapsedMs(start, end));
    }
    return fastest;
  } finally {
    runtime.release(() => [start, end].forEach((event) => device.destroyEvent(event)));
  }
}
