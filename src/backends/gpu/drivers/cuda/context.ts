// A device's primary context. Creating it takes a tenth of a second or more, so it can be created on another thread
// while this one continues; a call that needs the context earlier blocks until it exists.

import { inBackground, Outputs } from "../shared/ffi.js";
import { tracedAsync } from "../shared/start-trace.js";
import { checkCuda, type StartedCuda } from "./device.js";

/**
 * A device's primary context, created at first use or by `prepare` in the background. It fails once: later uses throw
 * the same error.
 */
export class CudaContext {
  readonly #cuda: StartedCuda;
  readonly #device: number;
  readonly #outputs = new Outputs(8);
  #handle: bigint | undefined;
  #making: Promise<void> | undefined;
  /** A context that failed is not tried again, because every caller would wait equally long. */
  #failure: number | undefined;
  #released = false;

  constructor(cuda: StartedCuda, device: number) {
    this.#cuda = cuda;
    this.#device = device;
  }

  /** Never rejects: a failure is thrown when the context is used. */
  prepare(): Promise<void> {
    this.#making ??= this.#make().catch(() => {});
    return this.#making;
  }

  /** Undefined until the context has been created or a call has needed it. */
  get made(): bigint | undefined {
    return this.#handle;
  }

  /** Creates the context if necessary; the driver lets one thread create it while the others wait. */
  get handle(): bigint {
    if (this.#handle !== undefined) return this.#handle;
    checkCuda(
      this.#cuda,
      "retainContext",
      this.#failure ?? this.#cuda.own.calls.retainContext(this.#outputs.clear().address, this.#device),
    );
    this.#handle = this.#outputs.pointer();
    return this.#handle;
  }

  /** The driver destroys the context when its last user releases it, which may be other code in this process. */
  release(): void {
    if (this.#handle !== undefined && !this.#released) this.#cuda.own.calls.releaseContext(this.#device);
    this.#released = true;
  }

  async #make(): Promise<void> {
    const out = new Outputs(8);
    const { retainContext, releaseContext } = this.#cuda.own.calls;
    const number = await tracedAsync("driver: create the context", () =>
      inBackground(retainContext, out.address, this.#device),
    );
    if (number !== 0) {
      this.#failure = number;
      return;
    }
    // It is retained once, even if its caller did not wait for it or was disposed.
    if (this.#handle !== undefined || this.#released) releaseContext(this.#device);
    else this.#handle = out.pointer();
  }
}
