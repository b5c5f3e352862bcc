// The default name of a model: that of its file.

import { basename } from "node:path";

const PART_OF_SPLIT = /-\d{5}-of-\d{5}$/;

/** The file's name without `.gguf` and without the number of a part. */
export function modelName(path: string): string {
  return basename(path)
    .replace(/\.gguf$/i, "")
    .replace(PART_OF_SPLIT, "");
}
