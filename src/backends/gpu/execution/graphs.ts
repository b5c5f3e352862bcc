// Captured graphs of a program, by the step size they were captured for. A graph is captured when its key occurs for
// the second time, the least recently used is evicted, and all are dropped when an address changes that they contain.

import { GpuError } from "../../../errors.js";
import { LruCache } from "../../../lru.js";
import type { DriverKind, GpuDevice, GraphHandle, StreamHandle } from "../drivers/shared/driver.js";
import type { GpuRuntime } from "../memory/runtime.js";

/** A warm-up captures 11 batch sizes at up to 11 depths, and there are others. */
const MAX_GRAPHS = 192;
/** Keys that have occurred once and are remembered. */
const MAX_KEYS = 512;
/**
 * Maximum launches per graph. HIP's graphs of about 200 kernel nodes and more were seen to read stale memory
 * (ROCm/hip#3887), so longer steps are divided into several graphs there.
 */
export const MAX_GRAPH_LAUNCHES: Readonly<Record<DriverKind, number>> = { hip: 120, cuda: Number.POSITIVE_INFINITY };

/** One captured step: graphs that are launched one after another. */
export type StepGraph = readonly GraphHandle[];

/** An LRU cache of a program's captured graphs. */
export class GraphStore implements Disposable {
  readonly #runtime: GpuRuntime;
  readonly #graphs = new LruCache<string, StepGraph>({
    maxEntries: MAX_GRAPHS,
    onRemove: (graph) => this.#destroy(graph),
  });
  readonly #seen = new Set<string>();
  /** A driver that fails to capture once is not tried again. */
  #refused = false;

  constructor(runtime: GpuRuntime) {
    this.#runtime = runtime;
  }

  find(key: string): StepGraph | undefined {
    return this.#graphs.get(key);
  }

  /** Whether this key should be captured now; records its occurrence. */
  isDue(key: string): boolean {
    if (this.#refused) return false;
    if (this.#seen.has(key)) return true;
    if (this.#seen.size >= MAX_KEYS) this.#seen.clear();
    this.#seen.add(key);
    return false;
  }

  /** Lets this key be captured at its first occurrence. */
  expect(key: string): void {
    this.#seen.add(key);
  }

  /**
   * Captures what each part queues on the stream as one graph each; undefined if the driver cannot, and then nothing
   * was queued.
   */
  capture(key: string, stream: StreamHandle, parts: readonly (() => void)[]): StepGraph | undefined {
    const { device } = this.#runtime;
    const graph: GraphHandle[] = [];
    try {
      for (const part of parts) graph.push(captured(device, stream, part));
    } catch (error) {
      this.#runtime.noticed(error);
      this.#destroy(graph);
      if (!(error instanceof GpuError) || !this.#runtime.isUsable) throw error;
      this.#refused = true;
      process.emitWarning(`steps run launch by launch, which is slower: ${error.message}`, {
        type: "RocmForgeWarning",
        code: "ROCMFORGE_GRAPHS",
      });
      return undefined;
    }
    this.#graphs.set(key, graph);
    return graph;
  }

  /** Removes one graph; it is captured again after its key has occurred twice. */
  drop(key: string): void {
    this.#graphs.delete(key);
    this.#seen.delete(key);
  }

  clear(): void {
    this.#graphs.clear();
  }

  [Symbol.dispose](): void {
    this.clear();
  }

  #destroy(handles: readonly GraphHandle[]): void {
    this.#runtime.release(() => {
      for (const handle of handles) this.#runtime.device.destroyGraph(handle);
    });
  }
}

/** What `work` queues on the stream, as a graph; nothing of it runs. */
export function captured(device: GpuDevice, stream: StreamHandle, work: () => void): GraphHandle {
  device.beginCapture(stream);
  try {
    work();
  } catch (error) {
    device.abandonCapture(stream);
    throw error;
  }
  return device.endCapture(stream);
}
