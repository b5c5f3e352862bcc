// Pages of host memory that the device knows. Both ways run on Node's pool, because the pages of a file may have to be
// read first; where none of its threads can be made to know the device, they run here and block.

import type { DeviceCore } from "./core.js";
import { inBackground } from "./ffi.js";

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

export async function unregisterPages(core: DeviceCore, address: bigint): Promise<void> {
  const { calls, checked, background, ledger } = core;
  ledger.take("registered memory", address);
  const number = await background.run(
    () => inBackground(calls.unregisterHost, address),
    () => (core.use(), calls.unregisterHost(address)),
  );
  checked.givenBack("unregisterHost", number);
}
