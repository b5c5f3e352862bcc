// The files of the chat page as `npm run build` writes them to dist/page: each once plain and, if that is smaller, as .br
// and .gz. Invariants: only listed files are read, so that no path leads outside the folder; the folder is listed with the
// first request, and contents are read for each response, because browsers keep them.

import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { packageFile } from "../../package-files.js";

const FOLDER = "dist/page";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".json": "application/json; charset=utf-8",
  ".woff2": "font/woff2",
};

/** Best first. */
const ENCODINGS = [
  { name: "br", suffix: ".br" },
  { name: "gzip", suffix: ".gz" },
] as const;

/** A file in an encoding that the client accepts. */
export interface PageFile {
  readonly type: string;
  readonly encoding: "br" | "gzip" | undefined;
  readonly bytes: Buffer;
  readonly etag: string;
}

/** Reads files of the page. */
export class PageFiles {
  readonly #folder: () => string;
  #names: Promise<ReadonlySet<string>> | undefined;

  /** `folder` is that of the built page by default. */
  constructor(folder: () => string = () => packageFile(FOLDER)) {
    this.#folder = folder;
  }

  /** A file by its name; undefined if the page has none of that name, or was not built. */
  async find(name: string, acceptEncoding: string | undefined): Promise<PageFile | undefined> {
    this.#names ??= this.#list();
    const names = await this.#names;
    const type = TYPES[extname(name)];
    if (type === undefined || !names.has(name)) return undefined;
    const accepted = acceptedEncodings(acceptEncoding);
    const encoding = ENCODINGS.find((each) => accepted.has(each.name) && names.has(name + each.suffix));
    const bytes = await readFile(join(this.#folder(), name + (encoding?.suffix ?? "")));
    const etag = `"${createHash("sha256").update(bytes).digest("base64url").slice(0, 22)}"`;
    return { type, encoding: encoding?.name, bytes, etag };
  }

  async #list(): Promise<ReadonlySet<string>> {
    try {
      return new Set(await readdir(this.#folder()));
    } catch {
      // A checkout that has not been built, or a bundle without the package's files.
      this.#names = undefined;
      return new Set();
    }
  }
}

/** The encodings of an Accept-Encoding header, without those that it refuses (`q=0`). */
function acceptedEncodings(header = ""): ReadonlySet<string> {
  const entries = header.split(",").map((entry) =>
    entry
      .trim()
      .toLowerCase()
      .split(/\s*;\s*/),
  );
  return new Set(entries.filter(([, quality = ""]) => !/^q=0(?:\.0*)?$/.test(quality)).map(([name]) => name));
}
