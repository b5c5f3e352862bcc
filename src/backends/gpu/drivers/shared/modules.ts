// Loads compiled code onto the device, on a thread of Node's pool if the driver can bind that thread to the device.

import type { ModuleHandle } from "./driver.js";
import type { DeviceCore } from "./core.js";
import { addressOf, inBackground, Outputs } from "./ffi.js";

/** Concurrent loads: the pool's other threads register pages of weights meanwhile, which takes longer in total. */
const MAX_LOADING = 2;

let loading = 0;
const queue: (() => void)[] = [];

/** Loads compiled code onto the device without blocking this thread if possible. */
export async function loadModule(core: DeviceCore, image: Uint8Array): Promise<ModuleHandle> {
  if (!core.adapter.loadsInBackground) return await loadNow(core, image);
  if (loading >= MAX_LOADING) await new Promise<void>((resolve) => queue.push(resolve));
  else loading++;
  try {
    return await loadNow(core, image);
  } finally {
    // Hands the slot to the next in the queue, or frees it.
    const next = queue.shift();
    if (next === undefined) loading--;
    else next();
  }
}

async function loadNow(core: DeviceCore, image: Uint8Array): Promise<ModuleHandle> {
  const { calls, checked, background, adapter } = core;
  // A copy starts at the beginning of an allocation and so has the alignment that object files need.
  const aligned = new Uint8Array(image);
  const out = new Outputs(8);
  const load = (): number => (core.use(), calls.loadModule(out.address, addressOf(aligned)));
  const number = adapter.loadsInBackground
    ? await background.run(() => inBackground(calls.loadModule, out.address, addressOf(aligned)), load)
    : load();
  checked.checkSize("loadModule", "kernel load", number, aligned.byteLength);
  const module = out.pointer();
  core.ledger.add("module", module);
  return module as ModuleHandle;
}
