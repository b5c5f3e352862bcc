// Code on the device, loaded on a thread of Node's pool where those can be told which device it is for.

import type { ModuleHandle } from "./driver.js";
import type { DeviceCore } from "./core.js";
import { addressOf, inBackground, Outputs } from "./ffi.js";

/** At a time: the other threads of the pool make pages of weights known meanwhile, which takes longer altogether. */
const MAX_LOADING = 2;

let loading = 0;
const queue: (() => void)[] = [];

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
  // A copy begins where an allocation does: aligned as an object file has to be.
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
