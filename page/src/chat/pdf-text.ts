// The text of a PDF, page by page. The library (PDF.js) is a chunk of its own, which is loaded with the first PDF; it
// runs on the page's own thread.

import { extractText, getDocumentProxy } from "unpdf";

/** PDF.js writes what is wrong with a document to the console otherwise; errors are thrown in any case. */
const ERRORS_ONLY = 0;

/** The text of all pages; empty if the document has none. */
export async function readPdf(bytes: ArrayBuffer): Promise<string> {
  const pdf = await getDocumentProxy(new Uint8Array(bytes), { verbosity: ERRORS_ONLY });
  try {
    const { text } = await extractText(pdf, { mergePages: false });
    return text
      .map((page) => page.trim())
      .filter((page) => page !== "")
      .join("\n\n");
  } finally {
    await pdf.loadingTask.destroy();
  }
}
