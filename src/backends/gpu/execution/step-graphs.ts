// A program's captured graphs, tried out before they are used where the driver is not trusted. While one is not there,
// and for good once one was wrong on this device, steps run launch by launch.

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

/** `off` runs every step launch by launch: for finding out whether a driver's graphs are at fault. */
export const GRAPHS_VARIABLE = "ROCMFORGE_GPU_GRAPHS";
/** Steps of a key that run launch by launch after there was no memory to try its graph. */
const UNTRIED_STEPS = 256;

export interface StepGraphsOptions {
  /** Off runs every step launch by launch. */
  readonly graphs: boolean;
  /**
   * Whether what the driver makes (graphs, matmuls of its library) is compared with this package's own launches first.
   */
  readonly checks: boolean;
}

/** A step for which a graph would do. */
interface GraphRequest {
  readonly key: string;
  readonly plan: StepPlan;
  /** What is captured: the step's counts, rounded up. */
  readonly bucket: LaunchSize;
  readonly runner: LaunchRunner;
  readonly session: StepSession;
  readonly context: LoweringContext;
  readonly hasCache: boolean;
  /** Brings the step to the device again, after others were tried in its place. */
  restore(): void;
}

export class StepGraphs implements Disposable {
  readonly #runtime: GpuRuntime;
  readonly #options: StepGraphsOptions;
  readonly #store: GraphStore;
  /** By key, how many steps go by before its graph is tried again. */
  readonly #untried = new Map<string, number>();
  /** Of the last replayed step, which the next one most often is like. */
  #replayed: { readonly size: LaunchSize; readonly graph: StepGraph } | undefined;

  constructor(runtime: GpuRuntime, options: StepGraphsOptions) {
    this.#runtime = runtime;
    this.#options = options;
    this.#store = new GraphStore(runtime);
    // The check itself asks again and reports the failure.
    if (this.#isUsed && options.checks) runtime.kernels.module(CHECK_FILE).catch(() => {});
  }

  /** Replays the last graph where the step is of the same size; false if another one, or none, is right for it. */
  repeat(size: LaunchSize, stream: StreamHandle): boolean {
    const last = this.#replayed;
    if (last === undefined || !isSameSize(last.size, size) || !this.#isUsed) return false;
    this.#launch(last.graph, stream);
    return true;
  }

  /** Replays the graph of this step, or captures it where it is due; false if the step has to run launch by launch. */
  async replay(request: GraphRequest, size: LaunchSize): Promise<boolean> {
    if (!this.#isUsed) return false;
    const graph = this.#store.find(request.key) ?? (await this.#capture(request));
    if (graph === undefined) return false;
    this.#launch(graph, request.runner.stream);
    this.#replayed = { size, graph };
    return true;
  }

  /** Steps of this key are going to come: its graph is captured with the first. */
  expect(key: string): void {
    this.#store.expect(key);
  }

  /** An address has changed. */
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

  /** One that is wrong, or could not be tried, is not used. */
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

  /** Some drivers lose the device over a replay (ROCm/hip#3902): without graphs the next start may do. */
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
