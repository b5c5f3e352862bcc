// The result of a benchmark: as data with stable names, and as text.

import { countOf, formatBytes, formatRate, formatShare, formatTable, printable } from "../format.js";
import type { LoadTimings } from "../../index.js";
import type { BytesRead } from "./bytes-read.js";
import { describeProfile } from "./profile.js";
import type { BenchProfile, BenchSizes } from "./runner.js";
import type { Spread } from "./spread.js";
import type { TunedChoice } from "../../backends/tuning.js";
import { describeChoices } from "../tune/report.js";

interface Rate {
  readonly tokens: number;
  /** The median. */
  readonly tokensPerSecond: number;
  readonly min: number;
  readonly max: number;
  readonly samples: readonly number[];
}

/** The result of `rocmforge bench`, as `--json` prints it; null for values that were not measured or cannot be. */
export interface BenchReport {
  readonly model: {
    readonly path: string;
    readonly name: string | null;
    readonly architecture: string;
    readonly sizeBytes: number;
    readonly bytesByType: Readonly<Record<string, number>>;
  };
  readonly backend: string;
  readonly summary: string;
  readonly isa: string | null;
  readonly threads: number | null;
  readonly kvCacheType: string;
  readonly kvCacheBytes: number;
  readonly depth: number;
  /** How many sequences decoded together; the decode rate is that of all of them. */
  readonly sequences: number;
  readonly repeats: number;
  readonly prefill:
    | (Rate & {
        /** 8-bit multiply-adds of quantized weights; null if there are none. */
        readonly multiplyAddsPerSecond: number | null;
        readonly dotProductShare: number | null;
      })
    | null;
  readonly decode:
    | (Rate & {
        /** Null for several sequences: which experts they share is not known. */
        readonly bytesPerToken: number | null;
        readonly bytesPerSecond: number | null;
        readonly bandwidthShare: number | null;
      })
    | null;
  /** Decoding with drafts, if they were requested, and how many draft tokens were accepted in all runs. */
  readonly drafts: (Rate & { readonly draftedTokens: number; readonly acceptedTokens: number }) | null;
  /** What a tuner chose and this run used; null if the backend has no tuner. */
  readonly tuned: { readonly gain: number | null; readonly choices: readonly TunedChoice[] } | null;
  /** What each kernel of a step takes; null if that was not requested. */
  readonly profile: BenchProfile | null;
  readonly readBandwidth: { readonly bytesPerSecond: number; readonly sizeBytes: number } | null;
  /** The most 8-bit multiply-adds per second of these threads; null if the backend has no instruction for dot products. */
  readonly dotProductPeak: { readonly multiplyAddsPerSecond: number } | null;
  readonly timeToFirstTokenMs: number | null;
  readonly timeToFirstToken: Spread | null;
  /** Parts of the median start, for backends that load something; they overlap. */
  readonly load: (LoadTimings & { readonly firstTokenMs: number }) | null;
  /** Memory of the median start at its first token, without mapped file pages. */
  readonly ownBytesAtFirstToken: number | null;
  /** Peak memory of a process whose prompt has as many tokens as were measured and that generates a few. */
  readonly peakRssBytes: number | null;
  readonly peakRss: PeakRss | null;
}

/** The work of the process whose peak was measured; the KV cache is part of the peak. */
interface PeakRss {
  readonly bytes: number;
  readonly promptTokens: number;
  readonly contextTokens: number;
  readonly kvCacheBytes: number;
}

/** A spread of speeds as the rate of a report. */
export function rateOf(tokens: number, { median, min, max, samples }: Spread): Rate {
  return { tokens, tokensPerSecond: median, min, max, samples };
}

/** The prefill rate of a report, with the multiply-adds of a prompt and their share of the dot-product peak. */
export function prefillRate(
  tokens: number,
  spread: Spread,
  multiplyAdds: number,
  peak: number | undefined,
): BenchReport["prefill"] {
  const multiplyAddsPerSecond = multiplyAdds === 0 ? null : (multiplyAdds / tokens) * spread.median;
  const dotProductShare = multiplyAddsPerSecond === null || peak === undefined ? null : multiplyAddsPerSecond / peak;
  return { ...rateOf(tokens, spread), multiplyAddsPerSecond, dotProductShare };
}

/** The decode rate of a report, with the bytes read and their share of the read bandwidth. */
export function decodeRate(
  sizes: BenchSizes,
  spread: Spread,
  { weightBytes, kvBytes }: BytesRead,
  bandwidth: number | undefined,
): BenchReport["decode"] {
  const rate = rateOf(sizes.decodeTokens, spread);
  if (sizes.sequences > 1) return { ...rate, bytesPerToken: null, bytesPerSecond: null, bandwidthShare: null };
  const bytesPerToken = Math.round(weightBytes + kvBytes);
  const bytesPerSecond = bytesPerToken * spread.median;
  return {
    ...rate,
    bytesPerToken,
    bytesPerSecond,
    bandwidthShare: bandwidth === undefined ? null : bytesPerSecond / bandwidth,
  };
}

/** A report as text. */
export function describeReport(report: BenchReport): string {
  const {
    model,
    prefill,
    decode,
    drafts,
    tuned,
    readBandwidth,
    dotProductPeak,
    depth,
    sequences,
    timeToFirstToken,
    load,
    ownBytesAtFirstToken,
    peakRss,
  } = report;
  const types = Object.entries(model.bytesByType).map(([type, bytes]) => `${type} ${formatBytes(bytes)}`);
  const rows: string[][] = [];
  const at = depth === 0 ? "" : ` at depth ${depth}`;
  if (prefill !== null) {
    rows.push([`prefill ${countOf(prefill.tokens, "token")}${at}`, describeRate(prefill)]);
    const { multiplyAddsPerSecond, dotProductShare } = prefill;
    if (multiplyAddsPerSecond !== null && dotProductShare !== null)
      rows.push([
        "  computes",
        `${formatBillions(multiplyAddsPerSecond)} multiply-adds/s, ${formatShare(dotProductShare)} of the dot-product peak`,
      ]);
  }
  if (decode !== null) {
    const together = sequences === 1 ? "" : ` of each of ${sequences} sequences`;
    rows.push([`decode ${countOf(decode.tokens, "token")}${together}${at}`, describeRate(decode)]);
    const { bytesPerToken, bytesPerSecond, bandwidthShare } = decode;
    const share = bandwidthShare === null ? "" : `, ${formatShare(bandwidthShare)} of the read bandwidth`;
    if (bytesPerToken !== null && bytesPerSecond !== null)
      rows.push(["  reads", `${formatBytes(bytesPerToken)} per token, ${formatBytes(bytesPerSecond)}/s${share}`]);
  }
  if (drafts !== null) {
    rows.push([`decode ${countOf(drafts.tokens, "token")} with drafts`, describeRate(drafts)]);
    const { draftedTokens, acceptedTokens } = drafts;
    const share = draftedTokens === 0 ? "" : ` (${formatShare(acceptedTokens / draftedTokens)})`;
    rows.push(["  accepted", `${acceptedTokens} of ${countOf(draftedTokens, "draft token")}${share}`]);
  }
  if (tuned !== null) rows.push(["tuned", describeChoices(tuned.choices)]);
  if (readBandwidth !== null)
    rows.push([
      "read bandwidth",
      `${formatBytes(readBandwidth.bytesPerSecond)}/s (best of ${formatBytes(readBandwidth.sizeBytes)} read in order)`,
    ]);
  if (dotProductPeak !== null)
    rows.push([
      "dot-product peak",
      `${formatBillions(dotProductPeak.multiplyAddsPerSecond)} multiply-adds/s (best of 8-bit dot products of registers)`,
    ]);
  if (timeToFirstToken !== null) {
    const { median, min, max } = timeToFirstToken;
    rows.push(["process start to first token", `${median.toFixed(0)} ms (${min.toFixed(0)} to ${max.toFixed(0)})`]);
  }
  if (load !== null) {
    const part = (name: string, startMs: number, ms: number): string =>
      `${name} ${startMs.toFixed(0)} to ${(startMs + ms).toFixed(0)}`;
    const parts = [
      part("process", 0, load.processStartMs),
      part("driver", load.driverStartMs, load.driverMs),
      part("plan", load.planStartMs, load.planMs),
      part("kernels", load.kernelsStartMs, load.kernelsMs),
      part("weights", load.weightsStartMs, load.weightsMs),
      part("first step", load.firstStepStartMs, load.firstStepMs),
    ];
    rows.push(["  in parallel, in ms", parts.join(", ")]);
  }
  if (ownBytesAtFirstToken !== null)
    rows.push(["  memory then", `${formatBytes(ownBytesAtFirstToken)} without mapped file pages`]);
  if (peakRss !== null) {
    const { bytes, promptTokens, kvCacheBytes } = peakRss;
    const share = formatShare((bytes - kvCacheBytes) / model.sizeBytes);
    rows.push([
      "peak memory of a process",
      `${formatBytes(bytes)} with a prompt of ${countOf(promptTokens, "token")}: ${share} of the file and ${formatBytes(kvCacheBytes)} of KV cache`,
    ]);
  }
  return [
    `${printable(model.path)}${model.name === null ? "" : `: ${printable(model.name)}`}`,
    `  ${model.architecture}, ${formatBytes(model.sizeBytes)} (${types.join(", ")})`,
    `  backend ${report.backend}: ${report.summary}; KV cache ${report.kvCacheType}, ${formatBytes(report.kvCacheBytes)}`,
    "",
    formatTable(rows),
    ...(report.profile === null ? [] : ["", describeProfile(report.profile)]),
  ].join("\n");
}

function formatBillions(perSecond: number): string {
  return `${(perSecond / 1e9).toFixed(0)} billion`;
}

function describeRate({ tokensPerSecond, min, max, samples }: Rate): string {
  return `${formatRate(tokensPerSecond)} tokens/s (${formatRate(min)} to ${formatRate(max)} in ${countOf(samples.length, "run")})`;
}
