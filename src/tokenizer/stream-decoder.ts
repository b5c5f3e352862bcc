// Decodes tokens that arrive one at a time. Invariants: the results of `push` and `flush`, joined, are what `decode`
// returns for the same tokens; an incomplete character is held back until the tokens that complete it arrive, so a
// reader never sees half of one. Bytes that are not UTF-8 become U+FFFD.

/** The bytes that a token adds to the text. */
export type TokenBytes = (id: number) => Uint8Array;

const CONTINUATION_MASK = 0xc0;
const CONTINUATION = 0x80;
const LONGEST_SEQUENCE = 4;
const SPACE = 0x20;
const NOTHING = Buffer.alloc(0);

/** Decodes tokens one at a time, and never returns half a character. */
export class StreamDecoder {
  readonly #tokenBytes: TokenBytes;
  #pending: Buffer = NOTHING;
  #stripsSpace: boolean;

  /** `stripsSpace`: the first token that prints loses one leading space, which encoding had added. */
  constructor(tokenBytes: TokenBytes, stripsSpace: boolean) {
    this.#tokenBytes = tokenBytes;
    this.#stripsSpace = stripsSpace;
  }

  /** The text that this token completes; may be empty. */
  push(id: number): string {
    const printed = this.#tokenBytes(id);
    const bytes = this.#stripsSpace && printed[0] === SPACE ? printed.subarray(1) : printed;
    if (printed.length > 0) this.#stripsSpace = false;
    const all =
      this.#pending.length === 0
        ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
        : Buffer.concat([this.#pending, bytes]);
    const complete = completeBytes(all);
    this.#pending = complete === all.length ? NOTHING : Buffer.from(all.subarray(complete));
    return all.toString("utf8", 0, complete);
  }

  /** The text still held back, which can only be an incomplete character. */
  flush(): string {
    const rest = this.#pending.toString("utf8");
    this.#pending = NOTHING;
    return rest;
  }
}

/** How many of the bytes come before a character that may yet be completed. */
function completeBytes(bytes: Buffer): number {
  const first = Math.max(0, bytes.length - LONGEST_SEQUENCE + 1);
  for (let at = bytes.length - 1; at >= first; at--) {
    const byte = bytes[at] as number;
    if ((byte & CONTINUATION_MASK) === CONTINUATION) continue;
    return at + sequenceLength(byte) > bytes.length ? at : bytes.length;
  }
  return bytes.length;
}

/** The length of a character with this lead byte; 1 if the byte begins none. */
function sequenceLength(lead: number): number {
  if (lead < 0xc2 || lead > 0xf4) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}
