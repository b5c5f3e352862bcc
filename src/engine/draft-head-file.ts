// Draft heads (MTP) that were converted on their own: `mtp-NAME.gguf` beside the model, or the file that the caller
// names as its draft model.

import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isDraftHead } from "../architectures/file-kind.js";
import { FileError, GgufError } from "../errors.js";
import { GgufFile } from "../gguf/file.js";
import { GgufLoader } from "../loader/gguf-loader.js";

const HEAD_NAME = /^mtp-.+\.gguf$/i;
/** A folder may have heads of many models. */
const MAX_CANDIDATES = 8;

/** Whether a file has a draft head and no model. */
export async function isDraftHeadFile(path: string): Promise<boolean> {
  using file = await GgufFile.open(path, { mapping: "off" });
  return isDraftHead(file.metadata, file.tensors);
}

/**
 * The model of `loader` with the first draft head in its folder that fits, and none if it has blocks of its own that
 * predict tokens. Disposes `loader` if it returns another. `problem` is why a head beside the model does not fit.
 */
export async function withHeadBeside(loader: GgufLoader): Promise<{ loader: GgufLoader; problem?: unknown }> {
  if (predicts(loader.file)) return { loader };
  let problem: unknown;
  for (const extension of await headsBeside(loader.file.path)) {
    try {
      const extended = await GgufLoader.open(loader.file.path, { extension });
      await loader[Symbol.asyncDispose]();
      return { loader: extended };
    } catch (error) {
      if (!(error instanceof GgufError || error instanceof FileError)) throw error;
      problem ??= error;
    }
  }
  return { loader, problem };
}

function predicts({ metadata }: GgufFile): boolean {
  const architecture = metadata.get("general.architecture");
  return typeof architecture !== "string" || (metadata.get(`${architecture}.nextn_predict_layers`) ?? 0) !== 0;
}

/** Paths of files that are named as draft heads, those with the name most like the model's first. */
async function headsBeside(path: string): Promise<string[]> {
  const folder = dirname(path);
  const names = await readdir(folder).catch(() => []);
  const model = basename(path).toLowerCase();
  const likeness = (name: string): number => commonStart(name.toLowerCase().slice("mtp-".length), model);
  return names
    .filter((name) => HEAD_NAME.test(name) && name !== basename(path))
    .sort((left, right) => likeness(right) - likeness(left) || (left < right ? -1 : 1))
    .slice(0, MAX_CANDIDATES)
    .map((name) => join(folder, name));
}

function commonStart(left: string, right: string): number {
  let length = 0;
  while (length < left.length && left[length] === right[length]) length++;
  return length;
}
