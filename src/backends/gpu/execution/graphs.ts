// Captured graphs of a program, by what they were captured for. One is made when its key comes for the second time, the
// least recently used goes when there are too many, and all go when an address changes that they have in them.

import { GpuError } from "../../../errors.js";
import { LruCache } from "../../../lru.js";
import type { DriverKind, GpuDevice, GraphHandle, StreamHandle } from "../drivers/shared/driver.js";
import type { GpuRuntime } from "../memory/runtime.js";

/** A warm-up captures 11 batch sizes at up to 11 depths, and there are others. */
const MAX_GRAPHS = 192;
/** Keys remembered for having come once. */
const MAX_KEYS = 512;
/**
 * Launches of one graph at most. HIP's graphs of some 200 kernel nodes and more were seen to read stale memory
 * (ROCm/hip#3887), so longer steps are cut into several graphs there.
 */
export const MAX_GRAPH_LAUNCHES: Readonly<Record<DriverKind, number>> = { hip: 120, cuda: Number.POSITIVE_INFINITY };

/** One step, captured: graphs that are launched one after the other. */
export type StepGraph = readonly GraphHandle[];

export class GraphStore implements Disposable {
  readonly #runtime: GpuRuntime;
  readonly #graphs = new LruCache<string, StepGraph>({
    maxEntries: MAX_GRAPHS,
    onRemove: (graph) => this.#destroy(graph),
  });
  readonly #seen = new Set<string>();
  /** A driver that fails to record once is not asked again. */
  #refused = false;

  constructor(runtime: GpuRuntime) {
    this.#runtime = runtime;
  }

  find(key: string): StepGraph | undefined {
    return this.#graphs.get(key);
  }

  /** Whether it is time to capture this key; remembers that it came. */
  isDue(key: string): boolean {
    if (this.#refused) return false;
    if (this.#seen.has(key)) return true;
    if (this.#seen.size >= MAX_KEYS) this.#seen.clear();
    this.#seen.add(key);
    return false;
  }

  /** This key is captured when it comes for the first time. */
  expect(key: string): void {
    this.#seen.add(key);
  }

  /**
   * Records what each part queues on the stream, one graph for each; undefined if the driver cannot, and then nothing
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

  /** Forgets one, which is captured anew when its key has come twice again. */
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

function captured(device: GpuDevice, stream: StreamHandle, work: () => void): GraphHandle {
  device.beginCapture(stream);
  try {
    work();
  } catch (error) {
    device.abandonCapture(stream);
    throw error;
  }
  return device.endCapture(stream);
}
