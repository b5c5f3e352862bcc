// Rows of tables that stay in host memory, on their way to the device: read into pinned memory before a step is queued,
// and copied with the step's input, so that captured graphs find them at a fixed place.

import { BackendError } from "../../../errors.js";
import type { LazyTensor } from "../../../tensor/lazy-tensor.js";
import type { DeviceAddress, PinnedMemory, StreamHandle } from "../drivers/shared/driver.js";
import type { HostRowsPlace } from "../lowering/host-rows-place.js";
import { HostTable } from "../memory/host-table.js";
import type { GpuRuntime } from "../memory/runtime.js";

/** Rows that the first pinned memory has room for: those of a batch of decoding sequences. */
const FIRST_ROWS = 64;

interface Table {
  readonly place: HostRowsPlace;
  pinned: PinnedMemory | undefined;
}

/** Brings the rows of a step's tokens. The copy of the last step has ended before the next one is gathered. */
export class HostRows implements Disposable {
  readonly #runtime: GpuRuntime;
  readonly #tables: readonly Table[];
  #tokens = 0;

  constructor(runtime: GpuRuntime, places: readonly HostRowsPlace[]) {
    this.#runtime = runtime;
    this.#tables = places.map((place) => ({ place, pinned: undefined }));
  }

  /** Reads the rows of these tokens into pinned memory. */
  async gather(tokens: Int32Array, weights: readonly LazyTensor[]): Promise<void> {
    this.#tokens = tokens.length;
    for (const table of this.#tables) {
      const { weight, rowBytes } = table.place;
      const tensor = await weights[weight].load();
      if (!(tensor instanceof HostTable))
        throw new BackendError("BACKEND_STEP", `[gpu] ${tensor.descriptor.name} belongs to another backend`);
      await tensor.readRows(tokens, this.#room(table, tokens.length * rowBytes).bytes);
    }
  }

  /** Queues the copies of what was gathered last. */
  copy(addressOf: (place: HostRowsPlace["copied"]) => DeviceAddress, stream: StreamHandle): void {
    for (const { place, pinned } of this.#tables) {
      if (pinned === undefined || this.#tokens === 0) continue;
      const sizeBytes = this.#tokens * place.rowBytes;
      this.#runtime.device.copyToDevice(addressOf(place.copied), pinned.address, sizeBytes, stream);
    }
  }

  /** Within `release` of the runtime. */
  [Symbol.dispose](): void {
    for (const table of this.#tables) {
      if (table.pinned !== undefined) this.#runtime.device.freeHost(table.pinned);
      table.pinned = undefined;
    }
  }

  #room(table: Table, sizeBytes: number): PinnedMemory {
    const { pinned, place } = table;
    if (pinned !== undefined && pinned.bytes.byteLength >= sizeBytes) return pinned;
    const grown = this.#runtime.device.allocateHost(Math.max(sizeBytes, FIRST_ROWS * place.rowBytes));
    if (pinned !== undefined) this.#runtime.device.freeHost(pinned);
    table.pinned = grown;
    return grown;
  }
}
