// Disposes of a device: waits, within a limit, for running work, then frees everything in order. A device that stays
// busy keeps its memory until the process ends, because freeing under a running kernel could wait forever.

import { NOT_READY } from "./gpu-error.js";
import type { DeviceCore } from "./core.js";

const EVENT_UNTIMED = 2;
const PAUSE_MS = 1;
const DRAIN_LIMIT_MS = 5000;

/** Waits for the device and frees everything that it holds; false if it was still busy at the time limit. */
export function drain(core: DeviceCore, limitMs: number = DRAIN_LIMIT_MS): boolean {
  const { calls, ledger, background, checked } = core;
  if (!finish(core, performance.now() + limitMs)) {
    process.emitWarning(
      `${checked.place} is still busy after ${limitMs / 1000} s; its memory is freed when the process ends`,
      {
        type: "RocmForgeWarning",
        code: "ROCMFORGE_GPU_BUSY",
      },
    );
    return false;
  }
  // On a lost device all of these fail, and nothing more can be done.
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

/** Records an event at the end of each stream; any status but "not ready" counts as finished. */
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
