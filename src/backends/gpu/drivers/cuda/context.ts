// A device's primary context. It may be made on another thread, which takes a tenth of a second and more, while this
// one does what needs none; a call that needs it sooner blocks until it is there.

import { inBackground, Outputs } from "../shared/ffi.js";
import { checkCuda, type StartedCuda } from "./device.js";

export class CudaContext {
  readonly #cuda: StartedCuda;
  readonly #device: number;
  readonly #outputs = new Outputs(8);
  #handle: bigint | undefined;
  #making: Promise<void> | undefined;
  /** A context that failed is not tried again, because every caller would wait as long. */
  #failure: number | undefined;
  #released = false;

  constructor(cuda: StartedCuda, device: number) {
    this.#cuda = cuda;
    this.#device = device;
  }

  /** Never rejects: what went wrong is thrown when the context is used. */
  prepare(): Promise<void> {
    this.#making ??= this.#make().catch(() => {});
    return this.#making;
  }

  /** Undefined if it is not made yet and no call has needed it. */
  get made(): bigint | undefined {
    return this.#handle;
  }

  /** The driver lets one thread make it and the others wait. */
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

  /** The driver releases it with its last user, which may be other code of this process. */
  release(): void {
    if (this.#handle !== undefined && !this.#released) this.#cuda.own.calls.releaseContext(this.#device);
    this.#released = true;
  }

  async #make(): Promise<void> {
    const out = new Outputs(8);
    const { retainContext, releaseContext } = this.#cuda.own.calls;
    const number = await inBackground(retainContext, out.address, this.#device);
    if (number !== 0) {
      this.#failure = number;
      return;
    }
    // It is retained once, even if its caller did not wait for it or was disposed.
    if (this.#handle !== undefined || this.#released) releaseContext(this.#device);
    else this.#handle = out.pointer();
  }
}
