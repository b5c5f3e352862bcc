// Captured graphs of a program, by what they were captured for. One is made when its key comes for the second time, the
// least recently used goes when there are too many, and all go when an address changes that they have in them.

import { GpuError } from "../../errors.js";
import type { GpuDevice, GraphHandle, StreamHandle } from "./driver.js";
import type { GpuRuntime } from "./runtime.js";

const MOST_GRAPHS = 48;
/** Keys remembered for having come once. */
const MOST_KEYS = 512;

export class GraphStore implements Disposable {
  readonly #runtime: GpuRuntime;
  /** In order of use. */
  readonly #graphs = new Map<string, GraphHandle>();
  readonly #seen = new Set<string>();
  /** A driver that fails to record once is not asked again. */
  #refused = false;

  constructor(runtime: GpuRuntime) {
    this.#runtime = runtime;
  }

  find(key: string): GraphHandle | undefined {
    const graph = this.#graphs.get(key);
    if (graph === undefined) return undefined;
    this.#graphs.delete(key);
    this.#graphs.set(key, graph);
    return graph;
  }

  /** Whether it is time to capture this key; remembers that it came. */
  isDue(key: string): boolean {
    if (this.#refused) return false;
    if (this.#seen.has(key)) return true;
    if (this.#seen.size >= MOST_KEYS) this.#seen.clear();
    this.#seen.add(key);
    return false;
  }

  /** Records what `work` queues on the stream; undefined where the driver cannot, and then nothing was queued. */
  capture(key: string, stream: StreamHandle, work: () => void): GraphHandle | undefined {
    const { device } = this.#runtime;
    let graph: GraphHandle;
    try {
      device.beginCapture(stream);
      recorded(device, stream, work);
      graph = device.endCapture(stream);
    } catch (error) {
      this.#runtime.noticed(error);
      if (!(error instanceof GpuError) || !this.#runtime.isUsable) throw error;
      this.#refused = true;
      process.emitWarning(`steps run launch by launch, which is slower: ${error.message}`, { type: "RocmForgeWarning", code: "ROCMFORGE_GRAPHS" });
      return undefined;
    }
    this.#graphs.set(key, graph);
    for (const [oldest, unused] of this.#graphs) {
      if (this.#graphs.size <= MOST_GRAPHS) break;
      this.#graphs.delete(oldest);
      device.destroyGraph(unused);
    }
    return graph;
  }

  clear(): void {
    const graphs = [...this.#graphs.values()];
    this.#graphs.clear();
    this.#runtime.release(() => {
      for (const graph of graphs) this.#runtime.device.destroyGraph(graph);
    });
  }

  [Symbol.dispose](): void {
    this.clear();
  }
}

function recorded(device: GpuDevice, stream: StreamHandle, work: () => void): void {
  try {
    work();
  } catch (error) {
    device.abandonCapture(stream);
    throw error;
  }
}
