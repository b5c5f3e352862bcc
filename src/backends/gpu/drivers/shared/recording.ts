// Ends a capture: the graph is instantiated or discarded. Either way the captured form is destroyed.

import type { GraphHandle, StreamHandle } from "./driver.js";
import type { DeviceCore } from "./core.js";

/** Ends the capture on a stream and instantiates its graph; throws if the capture or the instantiation failed. */
export function endRecording(core: DeviceCore, stream: StreamHandle): GraphHandle {
  const { calls, checked, adapter, outputs } = core;
  const ended = calls.endCapture(stream, core.out());
  const recording = outputs.pointer();
  if (ended !== 0) {
    discard(core, recording);
    checked.check("endCapture", "launch", ended);
  }
  const number = adapter.instantiate(core.out(), recording);
  const graph = outputs.pointer();
  discard(core, recording);
  if (number !== 0) throw checked.error(adapter.instantiateSymbol, "launch", number);
  core.ledger.add("graph", graph);
  return graph as GraphHandle;
}

/** Ends and discards a capture. The library's status is ignored, because the capture may already be invalid. */
export function abandonRecording(core: DeviceCore, stream: StreamHandle): void {
  core.calls.endCapture(stream, core.out());
  discard(core, core.outputs.pointer());
}

function discard({ calls }: DeviceCore, recording: bigint): void {
  if (recording !== 0n) calls.destroyRecording(recording);
}
