// Whether a model fits into a device's memory and, if not, what would: a shorter context, a smaller KV cache type, or
// smaller weights. Pure arithmetic over sizes that a backend reports, done before anything is loaded.

import { BackendError } from "../errors.js";
import { optionText } from "../options.js";
import type { KvCacheType } from "./contract.js";

/** The sizes that determine whether a model fits. */
export interface MemoryQuestion {
  /** Prefix of messages: `hip device 0`. */
  readonly place: string;
  /** Bytes available for weights, scratch and KV cache together. */
  readonly availableBytes: number;
  /** Bytes of weights that are not loaded yet. */
  readonly weightBytes: number;
  readonly weightElements: number;
  readonly scratchBytes: number;
  /** Requested number of positions. */
  readonly tokens: number;
  readonly blockTokens: number;
  readonly kvCacheType: KvCacheType;
  /** Bytes of the KV cache, with the recurrent states. */
  kvCacheBytes(tokens: number, type: KvCacheType): number;
  /** Bytes of the recurrent states in it; 0 by default. */
  readonly stateBytes?: number;
  /** Whether the backend supports this type for this model's keys and values. */
  supportsKvCacheType(type: KvCacheType): boolean;
}

/** What would fit; members are absent if nothing of their kind would. */
export interface MemoryAdvice {
  /** Tokens of a KV cache of the requested type. */
  readonly fittingTokens?: number;
  /** A smaller KV cache type with which the whole context would fit. */
  readonly fittingKvCacheType?: KvCacheType;
  /** A quantisation of the weights with which the whole context would fit. */
  readonly fittingWeightType?: string;
  /** The approximate size of the weights in that quantisation. */
  readonly fittingWeightBytes?: number;
}

/** Largest first. */
const KV_CACHE_TYPES: readonly KvCacheType[] = ["f32", "f16", "q8_0"];

/** Bits per weight of whole files, including scales and tensors that mixtures keep in larger types. */
const WEIGHT_TYPES = [
  { name: "F16", bits: 16 },
  { name: "Q8_0", bits: 8.5 },
  { name: "Q6_K", bits: 6.6 },
  { name: "Q5_K_M", bits: 5.7 },
  { name: "Q4_K_M", bits: 4.9 },
  { name: "Q3_K_M", bits: 4 },
  { name: "Q2_K", bits: 3.2 },
] as const;

/** Bytes of weights, scratch and KV cache together. */
export function neededBytes({ weightBytes, scratchBytes, tokens, kvCacheType, kvCacheBytes }: MemoryQuestion): number {
  return weightBytes + scratchBytes + kvCacheBytes(tokens, kvCacheType);
}

/** Throws BACKEND_MEMORY if the model does not fit. */
export function refuseUnfit(question: MemoryQuestion): void {
  if (neededBytes(question) > question.availableBytes) throw unfitError(question);
}

/** The error for a model that does not fit, with settings that would. */
export function unfitError(question: MemoryQuestion): BackendError {
  const { place, availableBytes, weightBytes, scratchBytes, tokens, kvCacheType, stateBytes = 0 } = question;
  const kvBytes = question.kvCacheBytes(tokens, kvCacheType);
  const needed = neededBytes(question);
  const advice = adviceFor(question);
  return new BackendError(
    "BACKEND_MEMORY",
    `[${place}] ${bytesText(needed)} are needed (weights ${bytesText(weightBytes)}, KV cache of ${kvCacheType} for ${tokens} tokens ` +
      `${bytesText(kvBytes - stateBytes)}, ${stateBytes > 0 ? `recurrent states ${bytesText(stateBytes)}, ` : ""}scratch ${bytesText(scratchBytes)}) and ${bytesText(availableBytes)} are free; ${adviceText(question, advice)}; ${optionText("ignoreMemoryCheck")} tries it anyway`,
    {
      details: {
        neededBytes: needed,
        availableBytes,
        weightBytes,
        kvCacheBytes: kvBytes,
        stateBytes,
        scratchBytes,
        tokens,
        kvCacheType,
        ...advice,
      },
    },
  );
}

/** Finds settings with which the model would fit. */
export function adviceFor(question: MemoryQuestion): MemoryAdvice {
  const fittingTokens = fittingContext(question);
  if (fittingTokens > 0) {
    const types = KV_CACHE_TYPES.slice(KV_CACHE_TYPES.indexOf(question.kvCacheType) + 1);
    const smaller = types.find(
      (type) => question.supportsKvCacheType(type) && fits(question, question.weightBytes, type),
    );
    return { fittingTokens, ...(smaller === undefined ? {} : { fittingKvCacheType: smaller }) };
  }
  const bits = (8 * question.weightBytes) / question.weightElements;
  const smaller = WEIGHT_TYPES.find(
    (type) => type.bits < bits && fits(question, estimatedBytes(question, type.bits), question.kvCacheType),
  );
  return smaller === undefined
    ? {}
    : { fittingWeightType: smaller.name, fittingWeightBytes: estimatedBytes(question, smaller.bits) };
}

/** Number of positions, in whole blocks, that fit beside weights and scratch, at most the requested number. */
function fittingContext({
  availableBytes,
  weightBytes,
  scratchBytes,
  tokens,
  blockTokens,
  kvCacheType,
  kvCacheBytes,
}: MemoryQuestion): number {
  const spareBytes = availableBytes - weightBytes - scratchBytes;
  let [fitting, tooMany] = [0, Math.ceil(tokens / blockTokens) + 1];
  while (tooMany - fitting > 1) {
    const blocks = Math.floor((fitting + tooMany) / 2);
    if (kvCacheBytes(blocks * blockTokens, kvCacheType) <= spareBytes) fitting = blocks;
    else tooMany = blocks;
  }
  return fitting * blockTokens;
}

function fits(
  { availableBytes, scratchBytes, tokens, kvCacheBytes }: MemoryQuestion,
  weightBytes: number,
  type: KvCacheType,
): boolean {
  return weightBytes + scratchBytes + kvCacheBytes(tokens, type) <= availableBytes;
}

function estimatedBytes({ weightElements }: MemoryQuestion, bits: number): number {
  return Math.ceil((weightElements * bits) / 8);
}

function adviceText(
  { tokens, weightBytes }: MemoryQuestion,
  { fittingTokens, fittingKvCacheType, fittingWeightType, fittingWeightBytes = 0 }: MemoryAdvice,
): string {
  if (fittingTokens !== undefined) {
    const typed =
      fittingKvCacheType === undefined
        ? ""
        : `, or all ${tokens} with keys and values in ${fittingKvCacheType} (${optionText("kvCacheType", fittingKvCacheType)})`;
    return `a context of ${fittingTokens} tokens would fit (${optionText("contextTokens", fittingTokens)})${typed}`;
  }
  if (fittingWeightType !== undefined) {
    return `the model quantised to ${fittingWeightType} would fit with about ${bytesText(fittingWeightBytes)} of weights`;
  }
  return weightBytes === 0
    ? "not even the shortest context would fit"
    : "no usual quantisation of this model would fit with this context: use a smaller model or another device";
}

function bytesText(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(2)} GB`;
  return bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1e3)} kB`;
}
