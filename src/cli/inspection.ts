// What a model file says about itself, as data, without loading a tensor. An unsupported architecture or type is only
// reported; an error in the file itself is kept as `failure`, to be thrown after the report.

import type { HyperParameters } from "../architectures/descriptor.js";
import { detectArchitecture } from "../architectures/registry.js";
import { GgufError, ModelError, type RocmForgeError } from "../errors.js";
import type { GgufFile, GgufPart, MappingState } from "../gguf/file.js";
import type { GgufMetadata } from "../gguf/metadata.js";
import { GraphBuilder } from "../graph/builder.js";
import { kvGroups } from "../graph/cache-groups.js";
import { countParameters, type ParameterCount } from "../graph/parameter-count.js";
import { kvLayers, type KvReach, type KvShape } from "../graph/program.js";
import type { GgufScalar, GgufValue } from "../gguf/value.js";
import { readRecommendedSampling, type RecommendedSampling } from "../sampler/recommended-sampling.js";
import { checkTokenizerMetadata } from "../tokenizer/tokenizer.js";
import { roleOf } from "./tensor-role.js";

/** Longer arrays are printed as their length. */
const MAX_SHOWN_ELEMENTS = 16;

/** A metadata value in JSON. */
type ShownScalar = string | number | boolean;
/** A metadata value in JSON; a long array is only its type and length. */
export type ShownValue =
  | ShownScalar
  | readonly ShownScalar[]
  | { readonly elementType: string; readonly length: number };

/** A token with a role, such as BOS. */
interface SpecialToken {
  readonly role: string;
  readonly id: number;
  /** The token's text as stored; undefined if the id is outside the vocabulary. */
  readonly text: string | undefined;
}

/** What a file says about its tokenizer. */
interface TokenizerInspection {
  readonly model: string | undefined;
  readonly preTokenizer: string | undefined;
  readonly vocabularySize: number;
  readonly merges: number;
  readonly specialTokens: readonly SpecialToken[];
  /** How many tokens the file says are never to be chosen. */
  readonly suppressedTokens: number;
}

/** The bytes of a group of tensors. */
export interface ByteShare {
  readonly name: string;
  readonly tensors: number;
  readonly elements: number;
  readonly sizeBytes: number;
  /** The share of the whole file, from 0 to 1. */
  readonly share: number;
}

/** Layers of the KV cache that queries see equally far back. */
export interface KvGroupInspection extends KvReach {
  readonly layers: number;
  /** Of all these layers, in f16. */
  readonly bytesPerToken: number;
}

/** What a file says about itself. */
export interface Inspection {
  readonly path: string;
  readonly version: number;
  readonly alignment: number;
  readonly sizeBytes: number;
  readonly parts: readonly GgufPart[];
  readonly mapping: MappingState;
  readonly architecture: { readonly name: string | undefined; readonly supported: boolean; readonly problem?: string };
  readonly parameters: HyperParameters | undefined;
  /** Parameters that inference uses, and those that one token uses; undefined for an unsupported architecture. */
  readonly parameterCount: ParameterCount | undefined;
  /** What the KV cache stores of a token, by cache group; undefined for an unsupported architecture. */
  readonly kvCacheGroups: readonly KvGroupInspection[] | undefined;
  readonly tokenizer: TokenizerInspection | undefined;
  /** The sampling that the file recommends. */
  readonly sampling: RecommendedSampling;
  readonly metadata: Readonly<Record<string, ShownValue>>;
  readonly bytesByRole: readonly ByteShare[];
  readonly bytesByType: readonly (ByteShare & { readonly supported: boolean })[];
  readonly tensors: readonly {
    readonly name: string;
    readonly type: string;
    readonly supported: boolean;
    readonly shape: readonly number[];
    readonly elements: number;
    readonly sizeBytes: number;
    readonly part: number;
    readonly offset: number;
  }[];
}

/** An inspection, and the error that loading the model would throw. */
interface InspectionResult {
  readonly inspection: Inspection;
  /** The error with which loading a model or a tokenizer from this file would be refused. */
  readonly failure: RocmForgeError | undefined;
}

/** Inspects an open file without loading a tensor. */
export function inspectFile(file: GgufFile): InspectionResult {
  const { path, version, alignment, sizeBytes, parts, mappingState, metadata } = file;
  const { failure: modelFailure, ...model } = inspectModel(file);
  const tokenizerFailure = failureOf(() => checkTokenizerMetadata(metadata));
  const tensors = [...file.tensors.values()];
  const tensorBytes = tensors.reduce((total, tensor) => total + tensor.sizeBytes, 0);
  const supportedTypes = new Map(tensors.map(({ layout }) => [layout.name as string, layout.supported]));
  const header = { name: "header and padding", tensors: 0, elements: 0, sizeBytes: sizeBytes - tensorBytes };
  const inspection: Inspection = {
    path,
    version,
    alignment,
    sizeBytes,
    parts,
    mapping: mappingState,
    ...model,
    tokenizer: inspectTokenizer(metadata),
    sampling: readRecommendedSampling(metadata),
    metadata: Object.fromEntries(Array.from(metadata.entries(), ({ key, value }) => [key, shown(value)])),
    bytesByRole: shares([...grouped(tensors, ({ name }) => roleOf(name)), header], sizeBytes),
    bytesByType: shares(
      grouped(tensors, ({ layout }) => layout.name),
      sizeBytes,
    ).map((share) => ({
      ...share,
      supported: supportedTypes.get(share.name) === true,
    })),
    tensors: tensors.map(({ layout, ...tensor }) => ({ ...tensor, type: layout.name, supported: layout.supported })),
  };
  return { inspection, failure: modelFailure ?? tokenizerFailure };
}

const NO_PARAMETERS = { parameters: undefined, parameterCount: undefined, kvCacheGroups: undefined };
const HALF_BYTES = 2;

function inspectKvCache(kv: KvShape): readonly KvGroupInspection[] {
  const shapes = kvLayers(kv);
  const bytesOf = (layer: number): number =>
    shapes[layer].kvHeads * (shapes[layer].keyWidth + shapes[layer].valueWidth) * HALF_BYTES;
  return kvGroups(kv).map(({ layers, ...reach }) => ({
    ...reach,
    layers: layers.length,
    bytesPerToken: layers.reduce((sum, layer) => sum + bytesOf(layer), 0),
  }));
}

function inspectModel(file: GgufFile): Pick<
  Inspection,
  "architecture" | "parameters" | "parameterCount" | "kvCacheGroups"
> & {
  readonly failure?: RocmForgeError;
} {
  const { tensors, metadata } = file;
  const stated = metadata.get("general.architecture");
  const name = typeof stated === "string" ? stated : undefined;
  try {
    const { descriptor, source } = detectArchitecture(metadata, tensors);
    const architecture = { name: name ?? descriptor.name, supported: true };
    // A file with only a vocabulary need not describe layers.
    if (tensors.size === 0) return { architecture, ...NO_PARAMETERS };
    const parameters = descriptor.readHyperParameters(source);
    const graph = new GraphBuilder({ fileName: source.fileName, hasTensor: (tensor) => tensors.has(tensor) });
    const program = descriptor.buildGraph(graph, parameters);
    const kvCacheGroups = inspectKvCache(program.kv);
    return { architecture, parameters, parameterCount: countParameters(program), kvCacheGroups };
  } catch (error) {
    if (error instanceof ModelError)
      return { architecture: { name, supported: false, problem: error.message }, ...NO_PARAMETERS };
    if (!(error instanceof GgufError)) throw error;
    return { architecture: { name, supported: false, problem: error.message }, ...NO_PARAMETERS, failure: error };
  }
}

function inspectTokenizer(metadata: GgufMetadata): TokenizerInspection | undefined {
  const tokens = metadata.get("tokenizer.ggml.tokens");
  if (typeof tokens !== "object") return undefined;
  const text = (key: string): string | undefined => {
    const value = metadata.get(key);
    return typeof value === "string" ? value : undefined;
  };
  const lengthOf = (key: string): number => {
    const value = metadata.get(key);
    return typeof value === "object" ? value.length : 0;
  };
  const specialTokens: SpecialToken[] = [];
  for (const { key, value } of metadata.entries()) {
    const role = /^tokenizer\.ggml\.(.+)_token_id$/.exec(key)?.[1];
    if (role === undefined || typeof value !== "number") continue;
    const stored =
      tokens.elementType === "string" && value >= 0 && value < tokens.length ? tokens.at(value) : undefined;
    specialTokens.push({ role, id: value, text: typeof stored === "string" ? stored : undefined });
  }
  return {
    model: text("tokenizer.ggml.model"),
    preTokenizer: text("tokenizer.ggml.pre"),
    vocabularySize: tokens.length,
    merges: lengthOf("tokenizer.ggml.merges"),
    specialTokens,
    suppressedTokens: lengthOf("tokenizer.ggml.suppress_tokens"),
  };
}

interface Measured {
  readonly name: string;
  readonly elements: number;
  readonly sizeBytes: number;
}

type Group = Omit<ByteShare, "share">;

function grouped<Tensor extends Measured>(tensors: readonly Tensor[], nameOf: (tensor: Tensor) => string): Group[] {
  const groups = new Map<string, Group>();
  for (const tensor of tensors) {
    const name = nameOf(tensor);
    const group = groups.get(name) ?? { name, tensors: 0, elements: 0, sizeBytes: 0 };
    groups.set(name, {
      name,
      tensors: group.tensors + 1,
      elements: group.elements + tensor.elements,
      sizeBytes: group.sizeBytes + tensor.sizeBytes,
    });
  }
  return [...groups.values()];
}

/** The groups' shares of the total, largest first. */
function shares(groups: readonly Group[], totalBytes: number): ByteShare[] {
  return groups
    .map((group) => ({ ...group, share: group.sizeBytes / totalBytes }))
    .sort((left, right) => right.sizeBytes - left.sizeBytes);
}

/** 64-bit integers that a number cannot hold, NaN and infinity cannot be expressed in JSON: they become text. */
function shown(value: GgufValue): ShownValue {
  if (typeof value !== "object") return shownScalar(value);
  const { elementType, length } = value;
  if (length > MAX_SHOWN_ELEMENTS || elementType === "array") return { elementType, length };
  return Array.from(value, (element) => (typeof element === "object" ? element.elementType : shownScalar(element)));
}

function shownScalar(value: GgufScalar): ShownScalar {
  if (typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value))) return String(value);
  return value;
}

function failureOf(check: () => void): GgufError | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof GgufError) return error;
    throw error;
  }
}
