// Reads files that are attached to a question: text only, within a size that a context could hold.

import type { Attachment } from "./message";

const MAX_BYTES = 1_000_000;

interface ReadFiles {
  readonly read: readonly Attachment[];
  /** Names of files that are not text or too large. */
  readonly refused: readonly string[];
}

export async function readAttachments(files: Iterable<File>): Promise<ReadFiles> {
  const read: Attachment[] = [];
  const refused: string[] = [];
  for (const file of files) {
    const text = file.size > MAX_BYTES ? undefined : textOf(await file.arrayBuffer());
    if (text === undefined) refused.push(file.name);
    else read.push({ name: file.name, text });
  }
  return { read, refused };
}

/** Undefined if the bytes are not UTF-8 text. */
function textOf(bytes: ArrayBuffer): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}
