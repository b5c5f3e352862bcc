// Loads compiled code onto the device, on a thread of Node's pool if the driver can bind that thread to the device. A
// module takes half a millisecond to load, but the driver makes loads wait while pages of weights are registered, for as
// long as there are any to register: so pages wait for modules.

import type { ModuleHandle } from "./driver.js";
import type { DeviceCore } from "./core.js";
import { addressOf, inBackground, Outputs } from "./ffi.js";
import { tracedAsync } from "./start-trace.js";

/**
 * Loads in the pool's queue: the driver lets one thread load at a time, but further loads must not wait until this thread
 * is free to request them. Other users of the pool wait for them, a few milliseconds.
 */
const MAX_LOADING = 16;

/** The loads of one device. */
export class ModuleLoads {
  readonly #core: DeviceCore;
  readonly #whenReady: () => Promise<void>;
  readonly #queue: (() => void)[] = [];
  readonly #idle: (() => void)[] = [];
  #requested = 0;
  #loading = 0;

  /** `whenReady` resolves when the device can be used. */
  constructor(core: DeviceCore, whenReady: () => Promise<void>) {
    this.#core = core;
    this.#whenReady = whenReady;
  }

  /** Loads compiled code onto the device without blocking this thread if possible. */
  async load(image: Uint8Array): Promise<ModuleHandle> {
    this.#requested++;
    try {
      await this.#whenReady();
      this.#core.use();
      return this.#core.adapter.loadsInBackground ? await this.#inTurn(image) : await this.#load(image);
    } finally {
      if (--this.#requested === 0) for (const resolve of this.#idle.splice(0)) resolve();
    }
  }

  /** Resolves when no load is requested: immediately if there is none. */
  async whenIdle(): Promise<void> {
    while (this.#requested > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  async #inTurn(image: Uint8Array): Promise<ModuleHandle> {
    if (this.#loading >= MAX_LOADING) await new Promise<void>((resolve) => this.#queue.push(resolve));
    else this.#loading++;
    try {
      return await this.#load(image);
    } finally {
      // Hands the slot to the next in the queue, or frees it.
      const next = this.#queue.shift();
      if (next === undefined) this.#loading--;
      else next();
    }
  }

  async #load(image: Uint8Array): Promise<ModuleHandle> {
    const { calls, checked, background, adapter, ledger } = this.#core;
    // A copy starts at the beginning of an allocation and so has the alignment that object files need.
    const aligned = new Uint8Array(image);
    const out = new Outputs(8);
    const load = (): number => (this.#core.use(), calls.loadModule(out.address, addressOf(aligned)));
    const number = await tracedAsync("driver: load a module", async () =>
      adapter.loadsInBackground
        ? await background.run(() => inBackground(calls.loadModule, out.address, addressOf(aligned)), load)
        : load(),
    );
    checked.checkSize("loadModule", "kernel load", number, aligned.byteLength);
    const module = out.pointer();
    ledger.add("module", module);
    return module as ModuleHandle;
  }
}
