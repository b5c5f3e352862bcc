// The profile of a step as text: a line for each kernel, the one that takes most of the step first.

import type { KernelTime } from "../../backends/tuning.js";
import { countOf, formatBytes, formatShare, formatTable, printable } from "../format.js";
import type { BenchProfile } from "./runner.js";

/** A table of kernels with their share of the step, and the sum. */
export function describeProfile({ tokens, isPrompt, depth, kernels }: BenchProfile): string {
  const totalUs = kernels.reduce((sum, kernel) => sum + stepUs(kernel), 0);
  const header = ["kernel", "", "weights", "type", "launches", "µs each", "ms", "share", "reads"];
  const rows = kernels.toSorted((left, right) => stepUs(right) - stepUs(left)).map((kernel) => rowOf(kernel, totalUs));
  const what = isPrompt
    ? `a prefill of ${countOf(tokens, "token")}`
    : `a decoding step of ${countOf(tokens, "sequence")}`;
  const at = depth === 0 ? "" : ` at depth ${depth}`;
  return [
    `kernels of ${what}${at}, each alone, by this package's own kernels: ${(totalUs / 1000).toFixed(2)} ms in all`,
    formatTable([header, ...rows], ["left", "left", "left", "left", "right", "right", "right", "right", "right"]),
  ].join("\n");
}

function rowOf(kernel: KernelTime, totalUs: number): string[] {
  const { label, weights, types, weightBytes, launches, microseconds } = kernel;
  const reads = weightBytes === null ? "" : `${formatBytes((weightBytes * 1e6) / microseconds)}/s`;
  return [
    label,
    kernel.kernel,
    printable(weights.join(", ")),
    types.join(", "),
    String(launches),
    microseconds.toFixed(1),
    (stepUs(kernel) / 1000).toFixed(3),
    formatShare(stepUs(kernel) / totalUs),
    reads,
  ];
}

function stepUs({ microseconds, launches }: KernelTime): number {
  return microseconds * launches;
}
