// The end of a recording: made ready to run, or thrown away. Either way nothing of it is left but the graph.

import type { GraphHandle, StreamHandle } from "./driver.js";
import type { DeviceCore } from "./core.js";

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

/** What the library says of it does not matter: it may have been spoilt already. */
export function abandonRecording(core: DeviceCore, stream: StreamHandle): void {
  core.calls.endCapture(stream, core.out());
  discard(core, core.outputs.pointer());
}

function discard({ calls }: DeviceCore, recording: bigint): void {
  if (recording !== 0n) calls.destroyRecording(recording);
}
