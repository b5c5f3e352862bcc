// Reads files that are attached to a question: text, and the text of PDFs, within a size that a context could hold.

import type { Attachment } from "./message";

const MAX_TEXT_BYTES = 1_000_000;
/** Pictures and fonts make a PDF larger than its text. */
const MAX_PDF_BYTES = 50_000_000;

interface ReadFiles {
  readonly read: readonly Attachment[];
  /** Why other files were not read, with their names. */
  readonly problems: readonly string[];
}

/** A file that cannot be attached, with the reason in words. */
class Refused extends Error {}

export async function readAttachments(files: Iterable<File>): Promise<ReadFiles> {
  const read: Attachment[] = [];
  const problems: string[] = [];
  for (const file of files) {
    try {
      read.push({ name: file.name, text: await textOf(file) });
    } catch (error) {
      problems.push(`${file.name}: ${error instanceof Refused ? error.message : "it cannot be read"}`);
    }
  }
  return { read, problems };
}

async function textOf(file: File): Promise<string> {
  const isPdf = (await file.slice(0, 5).text()) === "%PDF-";
  if (file.size > (isPdf ? MAX_PDF_BYTES : MAX_TEXT_BYTES)) throw tooLarge(isPdf ? MAX_PDF_BYTES : MAX_TEXT_BYTES);
  const bytes = await file.arrayBuffer();
  const text = isPdf ? await pdfText(bytes) : plainText(bytes);
  if (text.length > MAX_TEXT_BYTES) throw tooLarge(MAX_TEXT_BYTES);
  return text;
}

function plainText(bytes: ArrayBuffer): string {
  const refused = new Refused("only text and PDF files can be attached");
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw refused;
  }
  if (text.includes("\0")) throw refused;
  return text;
}

async function pdfText(bytes: ArrayBuffer): Promise<string> {
  const { readPdf } = await import("./pdf-text");
  const text = await readPdf(bytes);
  if (text === "") throw new Refused("it has no text, only pictures");
  return text;
}

/** The limit applies to the file, and to the text of a PDF. */
function tooLarge(limitBytes: number): Refused {
  return new Refused(`larger than ${limitBytes / 1_000_000} MB`);
}
