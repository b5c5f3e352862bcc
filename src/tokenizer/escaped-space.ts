// SentencePiece's spelling of a space in tokens, U+2581 `▁`.

/** The UTF-8 bytes of `▁`. */
export const ESCAPED_SPACE: Buffer = Buffer.from("▁");

const SPACE = 0x20;

/** A copy of [start, end) with every space spelled `▁`, and one more in front if `prefix` is set. */
export function escapeSpaces(bytes: Uint8Array, start: number, end: number, prefix: boolean): Buffer {
  let length = end - start + (prefix ? ESCAPED_SPACE.length : 0);
  for (let index = start; index < end; index++) if (bytes[index] === SPACE) length += ESCAPED_SPACE.length - 1;
  const escaped = Buffer.allocUnsafe(length);
  let at = prefix ? ESCAPED_SPACE.copy(escaped) : 0;
  for (let index = start; index < end; index++) {
    if (bytes[index] === SPACE) at += ESCAPED_SPACE.copy(escaped, at);
    else escaped[at++] = bytes[index] as number;
  }
  return escaped;
}

/** Whether a `▁` starts at this byte. */
export function isEscapedSpace(bytes: Uint8Array, at: number): boolean {
  return bytes[at] === 0xe2 && bytes[at + 1] === 0x96 && bytes[at + 2] === 0x81;
}

/** A copy with every `▁` replaced by a space. */
export function unescapeSpaces(bytes: Uint8Array): Uint8Array {
  const plain = Buffer.allocUnsafe(bytes.length);
  let length = 0;
  for (let index = 0; index < bytes.length; index++) {
    const escaped = isEscapedSpace(bytes, index);
    plain[length++] = escaped ? SPACE : (bytes[index] as number);
    if (escaped) index += ESCAPED_SPACE.length - 1;
  }
  return plain.subarray(0, length);
}
