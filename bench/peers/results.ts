// The results of a comparison: a table for the terminal, and the numbers and a chart as files.

import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { join } from "node:path";
import type { BenchReport } from "../../src/cli/bench/report.js";
import { countOf, formatTable } from "../../src/cli/format.js";
import { type Comparison, describeTarget, formatFigure, formatRatio } from "./comparison.js";
import { drawPicture } from "./picture.js";
import type { Settings } from "./settings.js";

const PEER_NAME = "node-llama-cpp";

export function describeComparisons(comparisons: readonly Comparison[]): string {
  const rows = comparisons.map((row) => {
    const { type, metric, ours, peer, ratio, llamaBench } = row;
    const show = (value: number): string => formatFigure(metric, value);
    const how =
      peer === undefined
        ? ""
        : `${countOf(peer.threads, "thread")}, flash attention ${peer.flashAttention ? "on" : "off"}`;
    return [
      type,
      metric,
      show(ours.median),
      `(${show(ours.min)} to ${show(ours.max)})`,
      peer === undefined ? "" : show(peer.median),
      peer === undefined ? "" : `(${show(peer.min)} to ${show(peer.max)})`,
      ratio === undefined ? "" : formatRatio(ratio),
      describeTarget(row),
      how,
      llamaBench === undefined ? "" : `llama-bench ${show(llamaBench.median)}, ${formatRatio(llamaBench.ratio)}`,
    ];
  });
  const alignments = ["left", "left", "right", "left", "right", "left", "right", "left", "left", "left"] as const;
  return formatTable(
    [["type", "what", "ours", "", PEER_NAME, "", "ratio", "target", "peer's best setup", ""], ...rows],
    alignments,
  );
}

/** Writes both files; returns their common path without the extension. */
export function writeResults(settings: Settings, comparisons: readonly Comparison[], report: BenchReport): string {
  const { shape, runs, prompt, tokens, depth, peerThreads, resultFolder } = settings;
  const { backend, isa, threads, kvCacheType, readBandwidth } = report;
  mkdirSync(resultFolder, { recursive: true });
  const [{ model: cpu }] = cpus();
  const about = {
    shape,
    cpu,
    cores: availableParallelism(),
    node: process.version,
    date: new Date().toISOString().slice(0, 10),
    runs,
    prompt,
    tokens,
    depth,
    peerThreads,
  };
  const path = join(resultFolder, `peers-${shape}`);
  const ours = { backend, isa, threads, kvCacheType, readBandwidth };
  writeFileSync(`${path}.json`, `${JSON.stringify({ ...about, ours, comparisons }, undefined, 2)}\n`);
  const note = `${cpu}, ${about.cores} cores; medians of ${countOf(runs, "interleaved run")}; npm run bench:peers`;
  writeFileSync(
    `${path}.svg`,
    drawPicture(comparisons, {
      title: `${shape}, random weights: ROCmForge and ${PEER_NAME} on one CPU`,
      note,
      prompt,
      depth,
    }),
  );
  return path;
}
