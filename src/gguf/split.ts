// Opens a model that is one file or several named `NAME-00001-of-00003.gguf`. Invariants: the metadata decides whether
// a file is a part, its name only tells where the siblings are; parts come in order, each states its own number and the
// same count, and no tensor is in two of them. Keys: `split.no` (from 0), `split.count`, `split.tensors.count` (of all
// parts together), as llama.cpp's gguf-split writes them; merged files keep a count of 0.

import { basename, dirname, join } from "node:path";
import { FileError, GgufError } from "../errors.js";
import { ByteSource } from "./byte-source.js";
import { readHeader, type GgufHeader } from "./header.js";
import type { HeaderSource } from "./header-cursor.js";
import { MAX_PARTS, MAX_TENSOR_COUNT } from "./limits.js";
import type { MetadataBudget } from "./metadata-reader.js";
import type { GgufMetadata } from "./metadata.js";
import type { GgufTensor } from "./tensor-index.js";
import { quote } from "./value.js";

const PART_NAME = /^(?<stem>.+)-(?<number>\d{5})-of-(?<count>\d{5})\.gguf$/u;

/** One file of a model with its header. */
interface ModelPart<Source extends HeaderSource> {
  readonly source: Source;
  readonly header: GgufHeader;
}

type OpenedPart = ModelPart<ByteSource>;

/** All parts of a model with their joined tensor index. */
export interface ModelParts<Source extends HeaderSource> {
  readonly parts: readonly ModelPart<Source>[];
  readonly tensors: ReadonlyMap<string, GgufTensor>;
}

/** A model whose files are open. */
export type OpenedModel = ModelParts<ByteSource>;

/** The file name of a part, numbered from 0. */
export function partPath(stem: string, part: number, count: number): string {
  return `${stem}-${fiveDigits(part + 1)}-of-${fiveDigits(count)}.gguf`;
}

function fiveDigits(value: number): string {
  return String(value).padStart(5, "0");
}

/** Opens a model of one file or several parts, and checks that the parts belong together. */
export function openModelParts(path: string): OpenedModel {
  const opened: OpenParts = { sources: [], spent: { decodedBytes: 0, nestedArrays: 0 } };
  try {
    const given = openPart(path, opened);
    const count = given.header.metadata.integer("split.count") ?? 1;
    const parts = count === 0 || count === 1 ? [given] : openSiblings(path, given, count, opened);
    return { parts, tensors: joinTensors(parts) };
  } catch (error) {
    for (const source of opened.sources) source[Symbol.dispose]();
    throw error;
  }
}

/** Reads the headers of a model's parts, given in order, and checks that they belong together. */
export function readModelParts<Source extends HeaderSource>(sources: readonly Source[]): ModelParts<Source> {
  const spent: MetadataBudget = { decodedBytes: 0, nestedArrays: 0 };
  const parts = sources.map((source) => ({ source, header: readHeader(source, spent) }));
  const [{ source, header }] = parts;
  const count = Math.max(1, header.metadata.integer("split.count") ?? 1);
  if (count !== parts.length) throw fault(source.path, "split.count", `${parts.length} parts`, String(count));
  if (count > 1) for (const [index, part] of parts.entries()) checkPart(part, index, header.metadata);
  return { parts, tensors: joinTensors(parts) };
}

/** The files to close if opening fails, and what the headers have cost so far. */
interface OpenParts {
  readonly sources: ByteSource[];
  readonly spent: MetadataBudget;
}

function openPart(path: string, opened: OpenParts): OpenedPart {
  const source = ByteSource.open(path);
  opened.sources.push(source);
  return { source, header: readHeader(source, opened.spent) };
}

function openSiblings(path: string, given: OpenedPart, count: number, opened: OpenParts): OpenedPart[] {
  if (count < 0) throw fault(path, "split.count", "0 or more", String(count));
  if (count > MAX_PARTS) {
    throw new GgufError("GGUF_LIMIT", {
      field: "split.count",
      expected: `at most ${MAX_PARTS} parts`,
      found: String(count),
    });
  }
  const name = PART_NAME.exec(basename(path))?.groups;
  if (name === undefined || Number(name["count"]) !== count) {
    throw fault(
      path,
      "split.count",
      `${count} parts in a name such as ${basename(partPath("NAME", 0, count))}`,
      quote(basename(path)),
    );
  }
  const stem = join(dirname(path), name["stem"] as string);
  const givenPart = Number(name["number"]) - 1;
  if (givenPart < 0 || givenPart >= count)
    throw fault(path, "split.no", `a part from 1 to ${count} in the name`, quote(basename(path)));
  return Array.from({ length: count }, (_, index) => {
    const part = index === givenPart ? given : openSibling(partPath(stem, index, count), index, count, opened);
    checkPart(part, index, given.header.metadata);
    return part;
  });
}

function openSibling(path: string, index: number, count: number, opened: OpenParts): OpenedPart {
  try {
    return openPart(path, opened);
  } catch (error) {
    if (!(error instanceof FileError) || error.code !== "FILE_NOT_FOUND") throw error;
    const message = `[gguf] ${path}: part ${index + 1} of ${count} is missing; put all parts into one folder`;
    throw new FileError("FILE_NOT_FOUND", message, { details: { path, part: index + 1, count }, cause: error });
  }
}

function checkPart({ source, header }: ModelPart<HeaderSource>, index: number, given: GgufMetadata): void {
  const number = header.metadata.integer("split.no");
  if (number !== index) throw fault(source.path, "split.no", String(index), String(number ?? "no such key"));
  for (const field of ["split.count", "split.tensors.count"]) {
    const expected = given.integer(field);
    const found = header.metadata.integer(field);
    if (found !== expected)
      throw fault(
        source.path,
        field,
        `${expected ?? "no such key"}, as in the part that was opened`,
        String(found ?? "no such key"),
      );
  }
}

function joinTensors(parts: readonly ModelPart<HeaderSource>[]): ReadonlyMap<string, GgufTensor> {
  const tensors = new Map<string, GgufTensor>();
  for (const [part, { source, header }] of parts.entries()) {
    for (const tensor of header.tensors) {
      const other = tensors.get(tensor.name);
      if (other !== undefined) {
        throw fault(
          source.path,
          `${tensor.name}.name`,
          "each tensor in one part only",
          `a second one; the first is in part ${other.part + 1}`,
        );
      }
      tensors.set(tensor.name, part === 0 ? tensor : { ...tensor, part });
    }
    if (tensors.size > MAX_TENSOR_COUNT) {
      throw new GgufError("GGUF_LIMIT", {
        field: "split.tensors.count",
        expected: `at most ${MAX_TENSOR_COUNT}`,
        found: String(tensors.size),
      });
    }
  }
  const declared = parts.length === 1 ? undefined : parts[0]?.header.metadata.integer("split.tensors.count");
  if (declared !== undefined && declared !== tensors.size) {
    throw fault(
      parts[0]?.source.path ?? "",
      "split.tensors.count",
      `${tensors.size}, as many as the parts hold`,
      String(declared),
    );
  }
  return tensors;
}

function fault(path: string, field: string, expected: string, found: string): GgufError {
  return new GgufError("GGUF_SPLIT", { field, expected, found }, { details: { path } });
}
