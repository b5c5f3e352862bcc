// Collects bytes for a file and writes them in large chunks that begin and end at multiples of the chunk size. The
// operating system then keeps them in large pages, so a model that is mapped right after it was written is read faster.

import type { FileHandle } from "node:fs/promises";

/** The size and alignment of one write. */
export const CHUNK_BYTES = 8 << 20;
/** The widest gap between two tensors that is filled with zeros; wider gaps are left as holes in a sparse file. */
const MAX_FILLED_GAP_BYTES = 65_536;

/** Writes bytes at ascending positions of a file, in aligned chunks. */
export class AlignedOutput {
  readonly #handle: FileHandle;
  readonly #chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  /** Where in the file the buffered bytes begin and end; always within one chunk. */
  #start = 0;
  #end = 0;

  constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /** Writes bytes at a position beyond all earlier ones; the gap between two writes reads as zeros. */
  async write(bytes: Uint8Array, position: number): Promise<void> {
    await this.#advance(position);
    for (let done = 0; done < bytes.byteLength;) {
      const within = this.#end % CHUNK_BYTES;
      const count = Math.min(CHUNK_BYTES - within, bytes.byteLength - done);
      this.#chunk.set(bytes.subarray(done, done + count), within);
      this.#end += count;
      done += count;
      if (this.#end % CHUNK_BYTES === 0) await this.flush();
    }
  }

  async flush(): Promise<void> {
    const first = this.#start % CHUNK_BYTES;
    const length = this.#end - this.#start;
    for (let done = 0; done < length;) {
      const { bytesWritten } = await this.#handle.write(this.#chunk, first + done, length - done, this.#start + done);
      done += bytesWritten;
    }
    this.#start = this.#end;
  }

  async #advance(position: number): Promise<void> {
    const gap = position - this.#end;
    if (gap > 0 && gap <= MAX_FILLED_GAP_BYTES) return await this.write(new Uint8Array(gap), this.#end);
    if (gap === 0) return;
    await this.flush();
    this.#start = position;
    this.#end = position;
  }
}
