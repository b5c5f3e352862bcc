// An open GGUF model: metadata, tensor index, and access to tensor bytes by positional read or by mapping. Invariants:
// opening reads headers only; bytes are addressed by a tensor's name, so no caller can read outside its range; the
// file's size is checked again before a mapped view is returned. A file that shrinks while a view is being read cannot
// be caught in TypeScript: readers that must survive it use `readTensor`.

import { withPath } from "../error-path.js";
import { TensorError } from "../errors.js";
import { Lifetime } from "../lifetime.js";
import { nearestNames } from "../nearest.js";
import { refuseUnknownKeys, refuseValue } from "../options.js";
import type { ByteSource, FileIdentity } from "./byte-source.js";
import { extendModel } from "./extension.js";
import type { GgufVersion } from "./header.js";
import type { HeaderBytes } from "./header-bytes.js";
import type { HeaderSource } from "./header-cursor.js";
import { MappedFile } from "./mapping.js";
import type { GgufMetadata } from "./metadata.js";
import { type ModelParts, openModelParts, type OpenedModel, readModelParts } from "./split.js";
import type { GgufTensor } from "./tensor-index.js";

export type { GgufTensor } from "./tensor-index.js";

/** How `GgufFile.open` reads a file. */
export interface GgufOpenOptions {
  /** "auto" maps the file if the platform supports it; "off" reads positionally. */
  readonly mapping?: "auto" | "off";
  /** The path of a file with further blocks of this model: a draft head (`mtp-NAME.gguf`). */
  readonly extension?: string;
}

/** One file of a model; a split model has several. */
export interface GgufPart {
  readonly path: string;
  readonly sizeBytes: number;
  readonly version: GgufVersion;
  readonly alignment: number;
  /** The byte offset of the tensor data in this file. */
  readonly dataOffset: number;
  readonly tensorCount: number;
}

/** Whether a file is mapped into memory, and why not. */
export interface MappingState {
  readonly mapped: boolean;
  /** Why the file is mapped or not, as a sentence for the user. */
  readonly reason: string;
}

/** What a part is read from: an open file, or its header alone. */
type PartSource = HeaderSource & Pick<ByteSource, "read"> & Partial<Pick<ByteSource, "identity">> & Disposable;

interface Mappings {
  readonly state: MappingState;
  readonly files: readonly MappedFile[];
}

let identityOf: (file: GgufFile) => FileIdentity | undefined;

/** An open GGUF model: its metadata, its tensor index and the bytes of its tensors. Dispose it to close the file. */
export class GgufFile implements Disposable {
  /** The path that was passed to `open`. */
  readonly path: string;
  readonly version: GgufVersion;
  readonly alignment: number;
  /** The size of all parts together. */
  readonly sizeBytes: number;
  /** The metadata of the first part. Arrays that have not been read yet cannot be read after disposal. */
  readonly metadata: GgufMetadata;
  /** All tensors by name, in file order, part after part. */
  readonly tensors: ReadonlyMap<string, GgufTensor>;
  readonly parts: readonly GgufPart[];
  readonly mappingState: MappingState;
  readonly #sources: readonly PartSource[];
  readonly #mappings: readonly MappedFile[];
  readonly #lifetime: Lifetime;

  static {
    identityOf = (file) => file.#sources[0]?.identity;
  }

  private constructor(path: string, model: ModelParts<PartSource>, mappings: Mappings) {
    this.path = path;
    this.#lifetime = new Lifetime(`the model file ${path}`);
    this.#sources = model.parts.map(({ source }) => source);
    this.#mappings = mappings.files;
    this.mappingState = mappings.state;
    this.tensors = model.tensors;
    this.parts = model.parts.map(({ source, header }) => ({
      path: source.path,
      sizeBytes: source.sizeBytes,
      version: header.version,
      alignment: header.alignment,
      dataOffset: header.dataOffset,
      tensorCount: header.tensors.length,
    }));
    this.sizeBytes = this.parts.reduce((sum, part) => sum + part.sizeBytes, 0);
    const [first] = model.parts as [ModelParts<PartSource>["parts"][number]];
    ({ version: this.version, alignment: this.alignment, metadata: this.metadata } = first.header);
  }

  static async open(path: string, options: GgufOpenOptions = {}): Promise<GgufFile> {
    const mapping = resolveMapping(options);
    if (typeof path !== "string" || path.includes("\0")) refuseValue("gguf", "path", "the path of a file", path);
    const model = openParts(path, options.extension);
    try {
      const mappings =
        mapping === "auto" ? await mapParts(model) : { state: { mapped: false, reason: "turned off" }, files: [] };
      return new GgufFile(path, model, mappings);
    } catch (error) {
      for (const { source } of model.parts) source[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * A model of which only the headers are known, one source for each part in order: everything but tensor bytes can be
   * read. `path` is its name in messages.
   */
  static fromHeaders(path: string, sources: readonly HeaderSource[]): GgufFile {
    const model = readModelParts(sources.map(headerOnly));
    return new GgufFile(path, model, { state: { mapped: false, reason: "only the header is known" }, files: [] });
  }

  /** Fills `target` with the tensor's bytes from `byteOffset` on. A short file is GGUF_TRUNCATED. */
  async readTensor(tensor: GgufTensor, target: Uint8Array, byteOffset = 0): Promise<void> {
    this.#lifetime.assertAlive();
    const own = this.#own(tensor);
    if (!Number.isSafeInteger(byteOffset) || byteOffset < 0 || byteOffset + target.byteLength > own.sizeBytes) {
      refuseValue(
        "gguf",
        "byteOffset",
        `a range within the ${own.sizeBytes} bytes of ${own.name}`,
        `${byteOffset} and ${target.byteLength} bytes`,
      );
    }
    await this.#sourceOf(own).read(target, own.offset + byteOffset, `${own.name}.data`);
  }

  /** The header of the first part, which contains the metadata. */
  async readHeader(): Promise<HeaderBytes> {
    this.#lifetime.assertAlive();
    const [source] = this.#sources;
    const [{ path, sizeBytes, dataOffset }] = this.parts;
    // A file without tensors may end before the offset at which their data would begin.
    const bytes = new Uint8Array(Math.min(dataOffset, sizeBytes));
    await source.read(bytes, 0, "header");
    return { path, sizeBytes, bytes };
  }

  /** Asks the system to read a tensor's pages soon; does nothing if the file is not mapped. */
  adviseWillNeed(tensor: GgufTensor): void {
    this.#lifetime.assertAlive();
    const own = this.#own(tensor);
    this.#mappings[own.part]?.adviseWillNeed(own.offset, own.sizeBytes);
  }

  /**
   * The tensor's bytes without a copy, or undefined if the file is not mapped or the tensor is too large for one view.
   * The memory is read-only: writing to it crashes the process. It stays readable as long as the view is referenced,
   * even after the file is disposed.
   */
  mappedView(tensor: GgufTensor): Uint8Array | undefined {
    this.#lifetime.assertAlive();
    const own = this.#own(tensor);
    const mapping = this.#mappings[own.part];
    if (mapping === undefined) return undefined;
    this.#sourceOf(own).requireSize(own.offset + own.sizeBytes, `${own.name}.data`);
    return mapping.view(own.offset, own.sizeBytes);
  }

  /** The mapping of a part, for native code; undefined if the part is not mapped. */
  mapping(part: number): MappedFile | undefined {
    this.#lifetime.assertAlive();
    return this.#mappings[part];
  }

  [Symbol.dispose](): void {
    if (!this.#lifetime.end()) return;
    for (const mapping of this.#mappings) mapping[Symbol.dispose]();
    for (const source of this.#sources) source[Symbol.dispose]();
  }

  /** The index entry of a tensor's name: the fields of the caller's object are not trusted. */
  #own(tensor: GgufTensor): GgufTensor {
    const own = this.tensors.get(tensor.name);
    if (own !== undefined) return own;
    const names = nearestNames(tensor.name, this.tensors.keys());
    const advice = names.length === 0 ? "" : `; the nearest are ${names.join(", ")}`;
    throw new TensorError("TENSOR_MISSING", `[gguf] ${this.path} has no tensor ${tensor.name}${advice}`, {
      details: { name: tensor.name, nearest: names },
    });
  }

  #sourceOf(tensor: GgufTensor): PartSource {
    return this.#sources[tensor.part] as PartSource;
  }
}

/** The first part, which contains the metadata, as it was when it was opened; undefined if only its header is known. */
export function fileIdentity(file: GgufFile): FileIdentity | undefined {
  return identityOf(file);
}

function openParts(path: string, extension: string | undefined): OpenedModel {
  const model = openModelParts(path);
  if (extension === undefined) return model;
  const opened = [...model.parts];
  try {
    const added = openModelParts(extension);
    opened.push(...added.parts);
    return extendModel(model, added);
  } catch (error) {
    for (const { source } of opened) source[Symbol.dispose]();
    throw withPath(extension, error);
  }
}

function headerOnly(source: HeaderSource): PartSource {
  const { path, sizeBytes } = source;
  return {
    path,
    sizeBytes,
    readSync: (target, position, field) => source.readSync(target, position, field),
    requireSize: (endBytes, field) => source.requireSize(endBytes, field),
    read: async (target, position, field) => source.readSync(target, position, field),
    [Symbol.dispose]: () => {},
  };
}

function resolveMapping(options: GgufOpenOptions): "auto" | "off" {
  refuseUnknownKeys("gguf", options, ["mapping", "extension"]);
  const { mapping = "auto" } = options;
  if (mapping === "auto" || mapping === "off") return mapping;
  return refuseValue("gguf", "mapping", '"auto" or "off"', mapping);
}

async function mapParts(model: OpenedModel): Promise<Mappings> {
  const files: MappedFile[] = [];
  for (const { source } of model.parts) {
    const mapped = await MappedFile.map(source);
    if (mapped instanceof MappedFile) {
      files.push(mapped);
      continue;
    }
    for (const file of files) file[Symbol.dispose]();
    return { state: { mapped: false, reason: mapped.reason }, files: [] };
  }
  return { state: { mapped: true, reason: "mapped read-only" }, files };
}
