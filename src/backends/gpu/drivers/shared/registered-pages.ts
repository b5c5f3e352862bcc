// Registers pages of host memory with the device. Both directions run on Node's pool, because the pages of a file may
// have to be read first; if no pool thread can be bound to the device, they run on this thread and block it. The driver
// makes allocations and loads of modules wait while it registers pages: so few registrations are in flight, and each
// further one is requested by this thread, which cannot do that while it waits for the driver itself.

import type { DeviceCore } from "./core.js";
import { inBackground } from "./ffi.js";
import { tracedAsync } from "./start-trace.js";

/** One that the driver works on, and one that begins when that ends, however busy this thread is then. */
const MAX_REGISTERING = 2;

/** Lets few registrations run at a time, in order of request. */
export class RegistrationQueue {
  readonly #queue: (() => void)[] = [];
  #running = 0;

  async run(register: () => Promise<void>): Promise<void> {
    if (this.#running >= MAX_REGISTERING) await new Promise<void>((resolve) => this.#queue.push(resolve));
    else this.#running++;
    try {
      await register();
    } finally {
      // Hands the slot to the next in the queue, or frees it.
      const next = this.#queue.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }
}

/** Registers pages, so that the device can copy from them directly. */
export async function registerPages(core: DeviceCore, address: bigint, sizeBytes: number): Promise<void> {
  const { calls, checked, background, ledger } = core;
  const flags = core.adapter.registerFlags;
  const number = await tracedAsync("driver: register pages", () =>
    background.run(
      () => inBackground(calls.registerHost, address, sizeBytes, flags),
      () => (core.use(), calls.registerHost(address, sizeBytes, flags)),
    ),
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
