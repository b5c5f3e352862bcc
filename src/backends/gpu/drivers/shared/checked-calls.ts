// Checks the status of a driver's functions: 0 is success, anything else becomes a GpuError with the function, the
// number, the library's description of it and the requested sizes.

import type { GpuError } from "../../../../errors.js";
import { type ErrorWords, failedCall, type GpuErrorKind } from "./gpu-error.js";
import type { DriverKind } from "./driver.js";
import type { DriverCalls } from "./calls.js";
import type { BoundCalls, Outputs } from "./ffi.js";

interface CallSite {
  readonly kind: DriverKind;
  readonly index: number;
  readonly bound: BoundCalls<DriverCalls>;
  words(number: number): ErrorWords;
}

/** Turns failed statuses of one device's calls into `GpuError`s. */
export class CheckedCalls {
  readonly place: string;
  readonly #site: CallSite;
  readonly #outputs: Outputs;

  constructor(site: CallSite, outputs: Outputs) {
    this.place = `${site.kind} device ${site.index}`;
    this.#site = site;
    this.#outputs = outputs;
  }

  check(call: keyof DriverCalls, purpose: GpuErrorKind, number: number): void {
    if (number !== 0) throw this.error(this.#site.bound.symbols[call], purpose, number);
  }

  /**
   * Checks the status of a call that frees something; failures of a lost device are ignored, because the call that lost
   * it has reported it.
   */
  givenBack(call: keyof DriverCalls, number: number): void {
    if (number === 0) return;
    const error = this.error(this.#site.bound.symbols[call], "internal", number);
    if (error.code !== "GPU_DEVICE_LOST") throw error;
  }

  /** Checks the status of a call that concerns `sizeBytes` bytes. */
  checkSize(call: keyof DriverCalls, purpose: GpuErrorKind, number: number, sizeBytes: number): void {
    if (number === 0) return;
    const circumstances = `for ${sizeBytes} bytes${purpose === "out of memory" ? this.#freeText() : ""}`;
    throw this.error(this.#site.bound.symbols[call], purpose, number, circumstances, { sizeBytes });
  }

  error(
    call: string,
    purpose: GpuErrorKind,
    number: number,
    circumstances?: string,
    details?: Readonly<Record<string, unknown>>,
  ): GpuError {
    return failedCall({
      driver: this.#site.kind,
      place: this.place,
      call,
      number,
      words: this.#site.words(number),
      purpose,
      ...(circumstances === undefined ? {} : { circumstances }),
      details: { device: this.#site.index, ...details },
    });
  }

  /** Best effort: a lost device cannot report its memory. */
  #freeText(): string {
    const { address } = this.#outputs;
    if (this.#site.bound.calls.memoryInfo(address, address + 8n) !== 0) return "";
    return ` (${this.#outputs.size(0)} of ${this.#outputs.size(1)} bytes are free)`;
  }
}
