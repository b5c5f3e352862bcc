// A program's captured graphs, verified before they are used if the driver is not trusted. Steps run launch by launch
// until there is a graph, and permanently once a graph was wrong on this device.

import { GpuError } from "../../../errors.js";
import type { StreamHandle } from "../drivers/shared/driver.js";
import { gpuError } from "../drivers/shared/gpu-error.js";
import type { LaunchSize } from "../lowering/launch.js";
import { CHECK_FILE } from "../drivers/shared/checks.js";
import { GraphCheck } from "./graph-check.js";
import { GraphStore, MAX_GRAPH_LAUNCHES, type StepGraph } from "./graphs.js";
import type { LoweringContext } from "../lowering/context.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { isSameSize } from "../lowering/step-bucket.js";
import type { StepPlan, LaunchRunner } from "./step-plan.js";
import type { StepSession } from "./step-session.js";

/** `off` runs every step launch by launch, to find out whether a driver's graphs are at fault. */
export const GRAPHS_VARIABLE = "ROCMFORGE_GPU_GRAPHS";
/** Steps of a key that run launch by launch after there was no memory to check its graph. */
const UNTRIED_STEPS = 256;

/** Whether steps are captured, and whether graphs are verified. */
export interface StepGraphsOptions {
  /** If false, every step runs launch by launch. */
  readonly graphs: boolean;
  /** Whether the driver's graphs and BLAS matmuls are first compared with this package's own launches. */
  readonly checks: boolean;
}

/** A step that could be replayed from a graph. */
interface GraphRequest {
  readonly key: string;
  readonly plan: StepPlan;
  /** The captured size: the step's counts, rounded up. */
  readonly bucket: LaunchSize;
  readonly runner: LaunchRunner;
  readonly session: StepSession;
  readonly context: LoweringContext;
  readonly hasCache: boolean;
  /** Uploads the step's input again, after others were tried in its place. */
  restore(): void;
}

/** Replays steps as captured graphs, or tells the caller to launch them one by one. */
export class StepGraphs implements Disposable {
  readonly #runtime: GpuRuntime;
  readonly #options: StepGraphsOptions;
  readonly #store: GraphStore;
  /** By key, the number of steps before its graph is tried again. */
  readonly #untried = new Map<string, number>();
  /** The last replayed step, which the next one usually resembles. */
  #replayed: { readonly size: LaunchSize; readonly graph: StepGraph } | undefined;

  constructor(runtime: GpuRuntime, options: StepGraphsOptions) {
    this.#runtime = runtime;
    this.#options = options;
    this.#store = new GraphStore(runtime);
    // The check loads it again and reports the failure.
    if (this.#isUsed && options.checks) runtime.kernels.module(CHECK_FILE).catch(() => {});
  }

  /** Replays the last graph if the step has the same size; otherwise returns false. */
  repeat(size: LaunchSize, stream: StreamHandle): boolean {
    const last = this.#replayed;
    if (last === undefined || !isSameSize(last.size, size) || !this.#isUsed) return false;
    this.#launch(last.graph, stream);
    return true;
  }

  /** Replays the graph of this step, or captures it if it is due; false if the step has to run launch by launch. */
  async replay(request: GraphRequest, size: LaunchSize): Promise<boolean> {
    if (!this.#isUsed) return false;
    const graph = this.#store.find(request.key) ?? (await this.#capture(request));
    if (graph === undefined) return false;
    this.#launch(graph, request.runner.stream);
    this.#replayed = { size, graph };
    return true;
  }

  /** Whether a step of this key can be replayed at once. */
  has(key: string): boolean {
    return this.#isUsed && this.#store.find(key) !== undefined;
  }

  /** Replays the graph of this key if there is one. */
  replayKnown(key: string, size: LaunchSize, stream: StreamHandle): boolean {
    const graph = this.#isUsed ? this.#store.find(key) : undefined;
    if (graph === undefined) return false;
    this.#launch(graph, stream);
    this.#replayed = { size, graph };
    return true;
  }

  /** Announces steps of this key: its graph is captured with the first. */
  expect(key: string): void {
    this.#store.expect(key);
  }

  /** Drops all graphs, because an address has changed. */
  clear(): void {
    this.#replayed = undefined;
    this.#untried.clear();
    this.#store.clear();
  }

  [Symbol.dispose](): void {
    this.clear();
  }

  get #isUsed(): boolean {
    return this.#options.graphs && this.#runtime.mayUse("graphs");
  }

  async #capture(request: GraphRequest): Promise<StepGraph | undefined> {
    const { key, plan, bucket, runner } = request;
    if (this.#isUntried(key) || !this.#store.isDue(key)) return undefined;
    await plan.load(bucket);
    plan.bindKnown(bucket, runner);
    if (!plan.isReady(bucket)) return undefined;
    const parts = plan.parts(bucket, MAX_GRAPH_LAUNCHES[this.#runtime.device.kind], runner);
    const graph = this.#store.capture(key, runner.stream, parts);
    if (graph === undefined || !this.#options.checks) return graph;
    return (await this.#isRight(request, graph, parts)) ? graph : undefined;
  }

  /** A graph that is wrong, or could not be checked, is not used. */
  async #isRight(
    { key, session, bucket, context, hasCache, runner, restore }: GraphRequest,
    graph: StepGraph,
    parts: readonly (() => void)[],
  ): Promise<boolean> {
    const check = new GraphCheck(this.#runtime, session, {
      context,
      size: bucket,
      hasCache,
      launch: () => parts.forEach((part) => part()),
      replay: () => this.#launch(graph, runner.stream),
    });
    let isTrusted = false;
    try {
      const verdict = await check.verdict();
      isTrusted = verdict.kind === "right";
      if (verdict.kind === "untried") this.#untried.set(key, UNTRIED_STEPS);
      if (verdict.kind === "wrong") {
        this.#runtime.giveUp("graphs", verdict.reason);
        this.clear();
      }
    } catch (error) {
      throw this.#explained(error);
    } finally {
      if (!isTrusted) this.#store.drop(key);
    }
    restore();
    return isTrusted;
  }

  /** Some drivers lose the device during a replay (ROCm/hip#3902): without graphs the next start may succeed. */
  #explained(error: unknown): unknown {
    this.#runtime.noticed(error);
    if (!(error instanceof GpuError) || error.code !== "GPU_DEVICE_LOST") return error;
    return gpuError({
      kind: "device lost",
      place: this.#runtime.place,
      what: `the device was lost while replays of a captured graph were checked: ${String(error.details["reason"])}`,
      remedy: `start again with ${GRAPHS_VARIABLE}=off, which runs steps launch by launch`,
      details: error.details,
      cause: error,
    });
  }

  #isUntried(key: string): boolean {
    const left = this.#untried.get(key) ?? 0;
    if (left > 0) this.#untried.set(key, left - 1);
    return left > 0;
  }

  #launch(graph: StepGraph, stream: StreamHandle): void {
    for (const part of graph) this.#runtime.device.launchGraph(part, stream);
  }
}
