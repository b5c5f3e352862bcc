// The end of a device: waits, within limits, for what is still running, then gives everything back in order. A device
// that does not come to an end keeps what it has until the process ends: freeing under a running kernel would wait for
// ever.

import { NOT_READY } from "./gpu-error.js";
import type { DeviceCore } from "./core.js";

const EVENT_UNTIMED = 2;
const PAUSE_MS = 1;
const DRAIN_LIMIT_MS = 5000;

/** False if the device was still busy at the end of the time. */
export function drain(core: DeviceCore, limitMs: number = DRAIN_LIMIT_MS): boolean {
  const { calls, ledger, background, checked } = core;
  if (!finish(core, performance.now() + limitMs)) {
    process.emitWarning(
      `${checked.place} is still busy after ${limitMs / 1000} s; its memory comes back when the process ends`,
      {
        type: "RocmForgeWarning",
        code: "ROCMFORGE_GPU_BUSY",
      },
    );
    return false;
  }
  // A device that was lost refuses all of this; there is nothing more to do for it then.
  for (const graph of ledger.of("graph")) calls.destroyGraph(graph);
  for (const module of ledger.of("module")) calls.unloadModule(module);
  for (const event of ledger.of("event")) {
    if (!background.isWaitedFor(event)) calls.destroyEvent(event);
  }
  for (const stream of ledger.of("stream")) calls.destroyStream(stream);
  for (const buffer of ledger.of("buffer")) calls.free(buffer);
  for (const memory of ledger.of("pinned memory")) calls.freeHost(memory);
  for (const memory of ledger.of("registered memory")) calls.unregisterHost(memory);
  ledger.clear();
  return true;
}

/** An event behind everything on each stream; any answer but "not yet" is an end of it. */
function finish({ calls, ledger, outputs }: DeviceCore, deadline: number): boolean {
  const sleeper = new Int32Array(new SharedArrayBuffer(4));
  for (const stream of ledger.of("stream")) {
    if (calls.createEvent(outputs.clear().address, EVENT_UNTIMED) !== 0) continue;
    const event = outputs.pointer();
    if (calls.record(event, stream) === 0) {
      while (calls.queryEvent(event) === NOT_READY) {
        if (performance.now() > deadline) return false;
        Atomics.wait(sleeper, 0, 0, PAUSE_MS);
      }
    }
    calls.destroyEvent(event);
  }
  return true;
}
