// A folder for the files of one test file, removed when its tests are done.

import { writeFileSync } from "node:fs";
import { afterAll } from "vitest";
import { TemporaryFolder } from "../../../test/support/temporary-folder.js";
import { GgufError } from "../../errors.js";
import { GgufFile, type GgufOpenOptions } from "../file.js";

interface GgufFolder {
  path(name: string): string;
  write(name: string, bytes: Uint8Array): string;
  /** Writes the bytes to a new file and opens it; the caller disposes it. */
  open(bytes: Uint8Array, options?: GgufOpenOptions): Promise<GgufFile>;
  /** The error with which opening the bytes is refused. */
  refusal(bytes: Uint8Array): Promise<Pick<GgufError, "code" | "field" | "expected" | "found">>;
}

/** Creates a folder that is removed after the tests of the file. */
export function temporaryFolder(): GgufFolder {
  const folder = new TemporaryFolder();
  let files = 0;
  afterAll(() => folder[Symbol.dispose]());
  const self: GgufFolder = {
    path: (name) => folder.file(name),
    write(name, bytes) {
      writeFileSync(self.path(name), bytes);
      return self.path(name);
    },
    open: (bytes, options) => GgufFile.open(self.write(`${files++}.gguf`, bytes), options),
    async refusal(bytes) {
      let file: GgufFile;
      try {
        file = await self.open(bytes);
      } catch (error) {
        if (!(error instanceof GgufError)) throw error;
        const { code, field, expected, found } = error;
        return { code, field, expected, found };
      }
      file[Symbol.dispose]();
      throw new Error("the file was expected to be refused, and was opened");
    },
  };
  return self;
}
