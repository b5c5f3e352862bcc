// Chooses the files of a model among those of a repository: by quantisation, by name, or the usual default. Files that
// accompany a model (projectors, importance matrices, draft heads) are never chosen by themselves.

import { posix } from "node:path";
import { HubError } from "../errors.js";
import { MAX_PARTS } from "../gguf/limits.js";

/** The quantisations that are looked for if none is named, in this order. */
const DEFAULT_QUANTS = ["Q4_K_M", "Q8_0"];
const MODEL_FILE = /\.gguf$/i;
const COMPANION = /mmproj|imatrix|^(?:mtp|eagle3|dflash)-/i;
const PART_NAME = /^(?<stem>.+)-(?<number>\d{5})-of-(?<count>\d{5})\.gguf$/i;
/** The usual names of types in the names of files, for messages and listings. */
const QUANT_NAME = /(?:^|[-._/])(?<quant>(?:UD-)?(?:I?Q\d\w*|T?Q\d_0|B?F16|F32|MXFP4\w*|NVFP4))(?=[-._/]|$)/i;
const MAX_LISTED = 20;

/** What to choose; without either, the default. */
export interface FileWish {
  readonly file?: string;
  readonly quant?: string;
}

/** A model of a repository: one file, or all parts in order. */
export interface ModelFiles {
  /** The name of the file, or of the first part. */
  readonly first: string;
  readonly paths: readonly string[];
}

/** The models among the files of a repository, in the order of their names. */
export function modelsAmong(paths: readonly string[]): readonly ModelFiles[] {
  const known = new Set(paths);
  return paths
    .filter((path) => MODEL_FILE.test(path) && !COMPANION.test(posix.basename(path)))
    .toSorted()
    .flatMap((path) => {
      const parts = splitParts(path);
      if (parts === undefined) return [{ first: path, paths: [path] }];
      // The later parts belong to the first.
      return parts[0] === path && parts.every((part) => known.has(part)) ? [{ first: path, paths: parts }] : [];
    });
}

/** Chooses a model's files; throws HUB_NOT_FOUND with what there is instead. */
export function chooseFiles(place: string, paths: readonly string[], { file, quant }: FileWish): ModelFiles {
  if (file !== undefined) return namedFile(place, paths, file);
  const models = modelsAmong(paths);
  if (quant !== undefined) {
    const chosen = models.filter(({ first }) => hasQuant(first, quant)).toSorted(byLength)[0];
    if (chosen === undefined) throw notFound(place, `a model of the quantisation ${quant}`, models);
    return chosen;
  }
  const chosen = defaultModel(models);
  if (chosen === undefined) throw notFound(place, "a GGUF model", models);
  return chosen;
}

/** Whether a default choice does not depend on which other files there are. */
export function isFirstChoice({ first }: ModelFiles): boolean {
  return hasQuant(first, DEFAULT_QUANTS[0]);
}

/** The quantisation in a file's name; undefined if it names none. */
export function quantOf(path: string): string | undefined {
  return QUANT_NAME.exec(path.replace(MODEL_FILE, ""))?.groups?.["quant"];
}

/** All parts of the model that a file belongs to, in order; undefined for a file that is not a part. */
export function splitParts(path: string): readonly string[] | undefined {
  const { stem, count } = PART_NAME.exec(path)?.groups ?? {};
  const parts = Number(count);
  if (stem === undefined || count === undefined || parts < 1 || parts > MAX_PARTS) return undefined;
  return Array.from({ length: parts }, (_, index) => `${stem}-${String(index + 1).padStart(5, "0")}-of-${count}.gguf`);
}

function defaultModel(models: readonly ModelFiles[]): ModelFiles | undefined {
  for (const quant of DEFAULT_QUANTS) {
    const chosen = models.filter(({ first }) => hasQuant(first, quant)).toSorted(byLength)[0];
    if (chosen !== undefined) return chosen;
  }
  return models[0];
}

function namedFile(place: string, paths: readonly string[], file: string): ModelFiles {
  const wanted = splitParts(file) ?? [file];
  const missing = wanted.find((path) => !paths.includes(path));
  if (missing !== undefined) throw notFound(place, missing, modelsAmong(paths));
  return { first: wanted[0], paths: wanted };
}

/** The quantisation may be in the file's name or be its folder's, and differ in case. */
function hasQuant(path: string, quant: string): boolean {
  const name = `/${path.replace(MODEL_FILE, "").toLowerCase()}/`;
  const wanted = quant.toLowerCase();
  for (let at = name.indexOf(wanted); at !== -1; at = name.indexOf(wanted, at + 1))
    if (/[-._/]/.test(name[at - 1]) && /[-./]/.test(name[at + wanted.length])) return true;
  return false;
}

/** Shorter names have fewer additions (`UD-`, `-finetuned`), so the shortest is the plain one. */
function byLength(one: ModelFiles, other: ModelFiles): number {
  return one.first.length - other.first.length;
}

function notFound(place: string, expected: string, models: readonly ModelFiles[]): HubError {
  const shown = models.slice(0, MAX_LISTED).map(({ first }) => first);
  const more = models.length > shown.length ? ` and ${models.length - shown.length} more` : "";
  const found = models.length === 0 ? "no GGUF model" : `${shown.join(", ")}${more}`;
  return new HubError("HUB_NOT_FOUND", `[hub] ${place}: expected ${expected}, found ${found}`, {
    details: { place, expected, found: models.map(({ first }) => first) },
  });
}
