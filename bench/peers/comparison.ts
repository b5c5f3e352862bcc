// The results of the two engines side by side: medians, their ratio, and the targets for the ratio.

import { type Spread, spreadOf } from "../../src/cli/bench/spread.js";

export type Metric = "decode" | "prefill" | "decode-at-depth" | "first-token" | "memory" | "bandwidth";

/** Which direction of a figure is better, and its target. */
interface Goal {
  readonly better: "higher" | "lower";
  readonly unit: "tokens/s" | "ms" | "bytes" | "share";
  /** The target for the ratio of our figure to the peer's, or for our figure alone if it is judged without the peer. */
  readonly target: (type: string) => number | undefined;
}

/** The mix that `synth` writes mixtures of experts in. Their decode target is lower: experts are short streams of memory. */
const EXPERTS_TYPE = "Q4_K";
const PREFILL_TYPES = ["Q4_K_M", "Q4_0", "Q8_0", EXPERTS_TYPE];
const BANDWIDTH_TYPES = ["Q8_0", "Q4_K_M"];

export const GOALS: { readonly [Name in Metric]: Goal } = {
  decode: { better: "higher", unit: "tokens/s", target: (type) => (type === EXPERTS_TYPE ? 1.15 : 1.2) },
  "decode-at-depth": { better: "higher", unit: "tokens/s", target: () => 1.2 },
  prefill: { better: "higher", unit: "tokens/s", target: (type) => (PREFILL_TYPES.includes(type) ? 1.5 : undefined) },
  "first-token": { better: "lower", unit: "ms", target: () => 0.7 },
  // The KV cache is added; the peer's figure is shown but sets no target.
  memory: { better: "lower", unit: "bytes", target: () => 1.15 },
  bandwidth: { better: "higher", unit: "share", target: (type) => (BANDWIDTH_TYPES.includes(type) ? 0.85 : undefined) },
};

export const METRICS = Object.keys(GOALS) as readonly Metric[];

export interface PeerFigure extends Spread {
  readonly threads: number;
  readonly flashAttention: boolean;
}

/** llama.cpp's own benchmark: without the cost of the peer's Node binding, and without a target. */
export interface LlamaBenchFigure extends Spread {
  readonly threads: number;
  /** Our median divided by its median. */
  readonly ratio: number;
}

export interface Comparison {
  readonly type: string;
  readonly metric: Metric;
  readonly ours: Spread;
  /** The best of the peer's setups for this metric; absent for figures that are compared with the machine. */
  readonly peer?: PeerFigure;
  /** Our median divided by the peer's. */
  readonly ratio?: number;
  readonly llamaBench?: LlamaBenchFigure;
  readonly target?: number;
  /** The value that is compared with the target. */
  readonly judged?: number;
  readonly met?: boolean;
}

export interface PeerSamples {
  readonly threads: number;
  readonly flashAttention: boolean;
  readonly samples: readonly number[];
}

export interface CompareOptions {
  /** Converts our figure to what the target is about, if that is not the ratio to the peer. */
  readonly judge?: (median: number) => number;
  readonly llamaBench?: { readonly threads: number; readonly samples: readonly number[] };
}

export function compare(
  type: string,
  metric: Metric,
  samples: readonly number[],
  peers: readonly PeerSamples[],
  options: CompareOptions = {},
): Comparison {
  const { better, target: targetFor } = GOALS[metric];
  const sign = better === "higher" ? 1 : -1;
  const ours = spreadOf(samples);
  const figures = peers
    .filter(({ samples: found }) => found.length > 0)
    .map(({ threads, flashAttention, samples: found }) => ({ threads, flashAttention, ...spreadOf(found) }));
  const [peer] = figures.toSorted((left, right) => sign * (right.median - left.median));
  const ratio = peer === undefined ? undefined : ours.median / peer.median;
  const judged = options.judge?.(ours.median) ?? ratio;
  const target = targetFor(type);
  return {
    type,
    metric,
    ours,
    ...(peer === undefined ? {} : { peer }),
    ...(ratio === undefined ? {} : { ratio }),
    ...llamaBenchFigure(ours, options.llamaBench),
    ...(target === undefined || judged === undefined ? {} : { target, judged, met: sign * (judged - target) >= 0 }),
  };
}

function llamaBenchFigure(ours: Spread, found: CompareOptions["llamaBench"]): Pick<Comparison, "llamaBench"> {
  if (found === undefined || found.samples.length === 0) return {};
  const spread = spreadOf(found.samples);
  return { llamaBench: { threads: found.threads, ...spread, ratio: ours.median / spread.median } };
}

/** Peak memory as the target defines it: in multiples of the file, after subtracting the KV cache. */
export function memoryJudge(fileBytes: number, kvCacheBytes: number): (peakBytes: number) => number {
  return (peakBytes) => (peakBytes - kvCacheBytes) / fileBytes;
}

export function formatFigure(metric: Metric, value: number): string {
  switch (GOALS[metric].unit) {
    case "tokens/s":
      return value.toFixed(1);
    case "ms":
      return `${value.toFixed(0)} ms`;
    case "bytes":
      return `${(value / 1e6).toFixed(0)} MB`;
    case "share":
      return `${(100 * value).toFixed(1)} %`;
    default:
      return GOALS[metric].unit satisfies never;
  }
}

/** "1.31 ×". */
export function formatRatio(ratio: number): string {
  return `${ratio.toFixed(2)} ×`;
}

/** "≥ 1.2 ×", "≤ 1.15 × file + KV (1.21) MISSED". */
export function describeTarget({ metric, target, judged, met }: Comparison): string {
  if (target === undefined || judged === undefined) return "";
  const relation = GOALS[metric].better === "higher" ? "≥" : "≤";
  const verdict = met === true ? "" : " MISSED";
  switch (metric) {
    case "memory":
      return `${relation} ${target} × file + KV (${judged.toFixed(2)})${verdict}`;
    case "bandwidth":
      return `${relation} ${formatFigure(metric, target)}${verdict}`;
    default:
      return `${relation} ${target} ×${verdict}`;
  }
}

/** A figure that has a target. */
export interface Held {
  readonly type: string;
  readonly metric: Metric;
}

/** Every figure of these types that has a target, whether it was measured or not. */
export function expectedTargets(types: readonly string[], depthTypes: readonly string[]): Held[] {
  return types.flatMap((type) =>
    METRICS.filter(
      (metric) =>
        GOALS[metric].target(type) !== undefined && (metric !== "decode-at-depth" || depthTypes.includes(type)),
    ).map((metric) => ({ type, metric })),
  );
}

export interface Verdict {
  readonly missed: readonly Held[];
  readonly notMeasured: readonly Held[];
}

export function judgeAll(expected: readonly Held[], comparisons: readonly Comparison[]): Verdict {
  const metOf = ({ type, metric }: Held): boolean | undefined =>
    comparisons.find((row) => row.type === type && row.metric === metric)?.met;
  return {
    missed: expected.filter((held) => metOf(held) === false),
    notMeasured: expected.filter((held) => metOf(held) === undefined),
  };
}

export function describeVerdict({ missed, notMeasured }: Verdict, types: readonly string[]): string {
  const list = (helds: readonly Held[]): string => helds.map(({ type, metric }) => `${metric} ${type}`).join(", ");
  const lines = [
    ...(missed.length === 0 ? [] : [`missed: ${list(missed)}`]),
    ...(notMeasured.length === 0 ? [] : [`not measured: ${list(notMeasured)}`]),
  ];
  return lines.length === 0 ? `every target is met (${types.join(", ")})` : lines.join("\n");
}
