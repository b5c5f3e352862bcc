// What the two engines did, side by side: medians, their ratio, and the targets that the ratio is held to.

import { type Spread, spreadOf } from "../../src/cli/bench/spread.js";

export type Metric = "decode" | "prefill" | "decode-at-depth" | "first-token" | "memory" | "bandwidth";

/** What makes a figure good, and which figures are held to it. */
interface Goal {
  readonly better: "higher" | "lower";
  readonly unit: "tokens/s" | "ms" | "bytes" | "share";
  /** For the ratio of ours to the peer's, or for ours alone where there is no peer. */
  readonly target: (type: string) => number | undefined;
}

const PREFILL_TYPES = ["Q4_K_M", "Q4_0", "Q8_0"];
const BANDWIDTH_TYPES = ["Q8_0", "Q4_K_M"];

export const GOALS: { readonly [Name in Metric]: Goal } = {
  decode: { better: "higher", unit: "tokens/s", target: () => 1.2 },
  "decode-at-depth": { better: "higher", unit: "tokens/s", target: () => 1.2 },
  prefill: { better: "higher", unit: "tokens/s", target: (type) => (PREFILL_TYPES.includes(type) ? 1.5 : undefined) },
  "first-token": { better: "lower", unit: "ms", target: () => 0.7 },
  // Of the file and the KV cache together; the peer stands beside it and sets no target.
  memory: { better: "lower", unit: "bytes", target: () => 1.15 },
  bandwidth: { better: "higher", unit: "share", target: (type) => (BANDWIDTH_TYPES.includes(type) ? 0.85 : undefined) },
};

export interface PeerFigure extends Spread {
  readonly threads: number;
  readonly flashAttention: boolean;
}

export interface Comparison {
  readonly type: string;
  readonly metric: Metric;
  readonly ours: Spread;
  /** The better of its thread counts; absent for what is measured against this machine. */
  readonly peer?: PeerFigure;
  /** Ours to the peer's medians. */
  readonly ratio?: number;
  readonly target?: number;
  readonly met?: boolean;
}

export interface PeerSamples {
  readonly threads: number;
  readonly flashAttention: boolean;
  readonly samples: readonly number[];
}

/** `measure` turns ours into what the target is about, where that is not the ratio to the peer. */
export function compare(type: string, metric: Metric, samples: readonly number[], peers: readonly PeerSamples[], measure?: (median: number) => number): Comparison {
  const { better, target: targetFor } = GOALS[metric];
  const sign = better === "higher" ? 1 : -1;
  const ours = spreadOf(samples);
  const figures = peers.map(({ threads, flashAttention, samples: found }) => ({ threads, flashAttention, ...spreadOf(found) }));
  const [peer] = figures.toSorted((left, right) => sign * (right.median - left.median));
  const ratio = peer === undefined ? undefined : ours.median / peer.median;
  const judged = measure?.(ours.median) ?? ratio;
  const target = targetFor(type);
  return {
    type,
    metric,
    ours,
    ...(peer === undefined ? {} : { peer }),
    ...(ratio === undefined ? {} : { ratio }),
    ...(target === undefined || judged === undefined ? {} : { target, met: sign * (judged - target) >= 0 }),
  };
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

export function describeTarget({ metric, target, met }: Comparison): string {
  if (target === undefined) return "";
  const relation = GOALS[metric].better === "higher" ? "≥" : "≤";
  const what = metric === "memory" ? " × file + KV" : metric === "bandwidth" ? "" : " ×";
  return `${relation} ${metric === "bandwidth" ? formatFigure(metric, target) : target}${what}${met === true ? "" : " MISSED"}`;
}
