// PDFs for tests: one page for each text, compressed as programs write them; a page with an empty text has none.

import { deflateSync } from "node:zlib";

/** A document with one line of text on each page. */
export function smallPdf(pages: readonly string[]): Buffer {
  const pageNumber = (index: number): number => 4 + 2 * index;
  const kids = pages.map((_, index) => `${pageNumber(index)} 0 R`).join(" ");
  const objects: (string | Buffer)[] = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    `<< /Type /Pages /Kids [${kids}] /Count ${pages.length} >>`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
  ];
  for (const [index, text] of pages.entries()) {
    const drawn = deflateSync(text === "" ? "0 0 10 10 re f" : `BT /F1 12 Tf 40 700 Td (${text}) Tj ET`);
    const head = `<< /Length ${drawn.length} /Filter /FlateDecode >>\nstream\n`;
    objects.push(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents ${pageNumber(index) + 1} 0 R /Resources << /Font << /F1 3 0 R >> >> >>`,
      Buffer.concat([Buffer.from(head), drawn, Buffer.from("\nendstream")]),
    );
  }
  let file = Buffer.from("%PDF-1.7\n");
  const offsets = objects.map((object, index) => {
    const offset = file.length;
    const parts = [`${index + 1} 0 obj\n`, object, "\nendobj\n"].map((part) => Buffer.from(part));
    file = Buffer.concat([file, ...parts]);
    return `${String(offset).padStart(10, "0")} 00000 n \n`;
  });
  const end = `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${offsets.join("")}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${file.length}\n%%EOF\n`;
  return Buffer.concat([file, Buffer.from(end)]);
}
