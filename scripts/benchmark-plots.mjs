// The plots of docs/benchmarks.md, drawn from the numbers that were measured: bench/results/ and the tables of that page.
// A figure that changes there changes its plot with `npm run docs -- --references`; a test compares them.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { drawBarChart } from "./bar-chart.mjs";

const CPU = "2 cores of an AMD EPYC (Zen 4, AVX-512 with VNNI), Node 20.";
const H200 =
  "One NVIDIA H200, Node 20; synthetic files of the published shapes; llama.cpp b21e4de on the same kind of machine.";
const OURS = "ROCmForge";

/** `2,330` or `37.9` as a number. */
const number = (text) => Number(text.replaceAll(",", ""));
const figure = (value) => (value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(1));

/** The cells of the table rows under a heading of the page. */
function rowsUnder(page, heading) {
  const section = page.split(/^#{2,3} /m).find((part) => part.startsWith(heading));
  if (section === undefined) throw new Error(`docs/benchmarks.md has no heading ${heading}`);
  return section
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .map((line) => line.slice(2, -2).split(" | "));
}

/** A cell such as `424 tok/s (338 to 425), 75 %` or `501 to 530 tok/s in …`: its figure, and its spread. */
function measured(cell) {
  const range = /^(?<low>[\d,.]+)(?: to (?<high>[\d,.]+))?/.exec(cell)?.groups;
  if (range === undefined) throw new Error(`docs/benchmarks.md: expected a figure, found ${cell}`);
  const [low, high] = [number(range.low), number(range.high ?? range.low)];
  const spread = /\((?<from>[\d,.]+) to (?<to>[\d,.]+)/.exec(cell)?.groups;
  return {
    value: (low + high) / 2,
    text: low === high ? range.low : `${range.low} to ${range.high}`,
    ...(spread === undefined ? {} : { from: number(spread.from), to: number(spread.to) }),
  };
}

const plain = (text) => ({ value: number(text), text });

/** One metric of `npm run bench:peers`, by block type. */
function peersChart({ comparisons, runs }, metric, title) {
  const bar = ({ median, min, max }) => ({ value: median, text: figure(median), from: min, to: max });
  const rows = comparisons.filter((row) => row.metric === metric);
  return {
    title,
    series: [OURS, "node-llama-cpp, the best of its setups"],
    groups: rows.map(({ type, ours, peer }) => ({ label: type, bars: [bar(ours), peer && bar(peer)] })),
    hardware: `${CPU} Llama-3.2-1B's shape. Medians of ${runs} interleaved runs; lines span all runs.`,
    command: "npm run bench:peers",
  };
}

function gpuDecodeChart(page) {
  const dense = rowsUnder(page, "The GPU backend on an NVIDIA H200")
    .filter(([what]) => what.startsWith("decode, "))
    .map(([what, ours, peer]) => ({ label: what.replace("decode, ", ""), bars: [measured(ours), plain(peer)] }));
  return {
    title: "Decode on an H200, tokens per second",
    series: [OURS, "llama.cpp"],
    groups: dense,
    hardware: `${H200} Lines span single runs.`,
    command: "rocmforge bench -m MODEL --backend cuda -p 4096 -n 128",
  };
}

/** Cells such as `690 (2.33)`: our figure and its ratio to llama.cpp's, which is drawn from both. */
function mixtureChart(page, column, title, command) {
  const [head, , ...rows] = rowsUnder(page, "Mixtures of experts, windows and latent attention");
  const index = head.indexOf(column);
  if (index === -1) throw new Error(`docs/benchmarks.md: no column ${column}`);
  return {
    title,
    series: [OURS, "llama.cpp (our figure divided by the measured ratio)"],
    groups: rows.map((cells) => {
      const { value, ratio } = /^(?<value>[\d,.]+) \((?<ratio>[\d.]+)\)$/.exec(cells[index]).groups;
      const peer = number(value) / number(ratio);
      return { label: cells[0], bars: [plain(value), { value: peer, text: figure(peer) }] };
    }),
    hardware: `${H200} Q4_K, gpt-oss MXFP4. Medians of three to nine runs.`,
    command,
  };
}

function batchChart(page) {
  const rows = rowsUnder(page, "The GPU backend on an NVIDIA H200");
  const [what, ours, peers] = rows.find(([cell]) => cell.startsWith("batches of "));
  const list = (text) => text.match(/\d[\d,]*\d|\d/g);
  const sizes = list(/^batches of (.*) sequences/.exec(what)[1].replaceAll(", ", " "));
  const values = list(ours.replaceAll(", ", " "));
  // The first has no number of sequences beside it: it is for the smallest batch.
  const peer = new Map(
    [...peers.matchAll(/(\d[\d,]*)(?: \((\d+)\))?(?:, |$)/g)].map(([, value, size]) => [size ?? sizes[0], value]),
  );
  return {
    title: "Sequences that decode together on an H200, tokens per second in all",
    series: [OURS, "llama.cpp (not measured for 128 and 256)"],
    groups: sizes.map((size, index) => ({
      label: `${size} sequences`,
      bars: [plain(values[index]), peer.has(size) ? plain(peer.get(size)) : undefined],
    })),
    hardware: `${H200} Llama-3-8B's shape in Q4_K_M.`,
    command: "rocmforge bench -m 8b.gguf --backend cuda -p 0 -n 32 -d 128 -s 64",
  };
}

function servingChart(page) {
  const rows = new Map(rowsUnder(page, "Serving concurrent requests").map(([what, value]) => [what, value]));
  const group = (label, row) => ({ label, bars: [measured(rows.get(row))] });
  return {
    title: "Concurrent requests on the CPU, tokens per second in all",
    series: [],
    groups: [
      group("one request", "one request"),
      group("eight requests", "eight concurrent requests"),
      group("eight, node-llama-cpp", "node-llama-cpp with eight sequences"),
    ],
    hardware: `${CPU} Llama-3.2-1B's shape in Q4_K_M, two threads, 64 tokens after prompts of 16. Medians of five rounds; lines span all rounds.`,
    command: "npm run bench -- serving FILE 5 peer",
  };
}

/**
 * All plots by their file names.
 * @param {string} root the repository's folder
 * @returns {Map<string, string>}
 */
export function benchmarkPlots(root) {
  const page = readFileSync(join(root, "docs", "benchmarks.md"), "utf8");
  const peers = JSON.parse(readFileSync(join(root, "bench", "results", "peers-llama3-1b.json"), "utf8"));
  const charts = {
    "cpu-decode.svg": peersChart(peers, "decode", "Decode on the CPU, tokens per second"),
    "cpu-prefill.svg": peersChart(peers, "prefill", "Prefill of 512 tokens on the CPU, tokens per second"),
    "cpu-first-token.svg": peersChart(
      peers,
      "first-token",
      "Process start to first token on the CPU, milliseconds (less is better)",
    ),
    "cpu-serving.svg": servingChart(page),
    "gpu-decode.svg": gpuDecodeChart(page),
    "gpu-batches.svg": batchChart(page),
    "gpu-mixtures-decode.svg": mixtureChart(
      page,
      "decode, tok/s",
      "Mixtures, windows and latent attention on an H200: decode, tokens per second",
      "rocmforge bench --backend cuda -p 0 -n 128",
    ),
    "gpu-mixtures-batch.svg": mixtureChart(
      page,
      "64 sequences, tok/s",
      "Mixtures, windows and latent attention on an H200: 64 sequences, tokens per second",
      "rocmforge bench --backend cuda -p 0 -n 64 -d 128 -s 64",
    ),
  };
  return new Map(Object.entries(charts).map(([name, chart]) => [name, drawBarChart(chart)]));
}
