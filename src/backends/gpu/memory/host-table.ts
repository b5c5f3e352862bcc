// A table of embeddings that stays in host memory: only the rows of a step's tokens are read from the file, and nothing of
// it is kept on the device.

import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { DeviceTensor } from "../../../tensor/device-tensor.js";
import type { TensorSource } from "../../contract.js";
import { layoutOf } from "./upload.js";

/** Reads under way at a time: prefill reads thousands of rows. */
const MAX_READS = 32;

/** A table whose rows are read when a step needs them. */
export class HostTable implements DeviceTensor {
  readonly descriptor: TensorDescriptor;
  readonly residentBytes = 0;
  /** Bytes of a row, as the file has it. */
  readonly rowBytes: number;
  readonly #source: TensorSource;
  readonly #rows: number;

  constructor(source: TensorSource) {
    this.descriptor = source.descriptor;
    this.rowBytes = layoutOf(source.descriptor).fileRowBytes;
    this.#rows = source.descriptor.elements / source.descriptor.shape[0];
    this.#source = source;
  }

  /** Fills `target` with the row of each token, in order; a token that occurs again is read once. */
  async readRows(tokens: Int32Array, target: Uint8Array): Promise<void> {
    const firsts = new Map<number, number>();
    for (const [index, token] of tokens.entries()) if (!firsts.has(token)) firsts.set(token, index);
    const wanted = [...firsts];
    let next = 0;
    const reader = async (): Promise<void> => {
      while (next < wanted.length) {
        const [token, index] = wanted[next++];
        // Tokens were checked when the step was made; a wrong one must not read elsewhere all the same.
        const row = token >= 0 && token < this.#rows ? token : 0;
        await this.#source.read(this.#rowOf(target, index), row * this.rowBytes);
      }
    };
    await Promise.all(Array.from({ length: Math.min(MAX_READS, wanted.length) }, reader));
    for (const [index, token] of tokens.entries()) {
      const first = firsts.get(token) ?? index;
      if (first !== index) this.#rowOf(target, index).set(this.#rowOf(target, first));
    }
  }

  #rowOf(target: Uint8Array, index: number): Uint8Array {
    return target.subarray(index * this.rowBytes, (index + 1) * this.rowBytes);
  }

  [Symbol.dispose](): void {}
}
