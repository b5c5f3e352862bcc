// Registers pages of host memory with the device. Both directions run on Node's pool, because the pages of a file may
// have to be read first; if no pool thread can be bound to the device, they run on this thread and block it.

import type { DeviceCore } from "./core.js";
import { inBackground } from "./ffi.js";

/** Registers pages, so that the device can copy from them directly. */
export async function registerPages(core: DeviceCore, address: bigint, sizeBytes: number): Promise<void> {
  const { calls, checked, background, ledger } = core;
  const flags = core.adapter.registerFlags;
  const number = await background.run(
    () => inBackground(calls.registerHost, address, sizeBytes, flags),
    () => (core.use(), calls.registerHost(address, sizeBytes, flags)),
  );
  checked.checkSize("registerHost", "copy", number, sizeBytes);
  ledger.add("registered memory", address);
}

/** Ends a registration; the device must have finished copying from the pages. */
export async function unregisterPages(core: DeviceCore, address: bigint): Promise<void> {
  const { calls, checked, background, ledger } = core;
  ledger.take("registered memory", address);
  const number = await background.run(
    () => inBackground(calls.unregisterHost, address),
    () => (core.use(), calls.unregisterHost(address)),
  );
  checked.givenBack("unregisterHost", number);
}
