// Our engine beside node-llama-cpp on the same synthetic files: `npm run bench:peers`. Runs are interleaved, each in a
// process of its own; figures are medians. Prints a table, and writes the numbers and a picture to bench/results/.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg } from "node:os";
import { join } from "node:path";
import { countOf, formatTable } from "../src/cli/format.js";
import { type OptionTable, parseOptions, type OptionValues } from "../src/cli/option-table.js";
import type { BenchReport } from "../src/cli/bench/report.js";
import { type Comparison, compare, describeTarget, formatFigure, formatRatio, type PeerSamples } from "./peers/comparison.js";
import { type PeerSetup, runOurs, runPeer, startOurs, startPeer, synthesise, type Workload } from "./peers/engines.js";
import { drawPicture } from "./peers/picture.js";

const CACHE = join(process.cwd(), ".cache", "bench");
/** Kept in the repository; a quick run's results stay beside its files. */
const RESULTS = join(process.cwd(), "bench", "results");
const PEER_NAME = "node-llama-cpp";
/** More than this many processes waiting, and figures are not worth much. */
const BUSY_LOAD = 0.7;

const MANY = { from: 1, to: 1000 };
const SIZE = { from: 1, to: 2 ** 20 };
const OPTIONS = {
  shape: { kind: "text", placeholder: "NAME", description: "as rocmforge synth takes it", fallback: "llama3-1b" },
  types: { kind: "text", placeholder: "LIST", description: "block types, with commas", fallback: "Q4_K_M,Q4_0,Q8_0,Q6_K,F16" },
  runs: { kind: "count", placeholder: "COUNT", range: MANY, description: "measurements of each engine", fallback: 5 },
  prompt: { kind: "count", placeholder: "TOKENS", range: SIZE, description: "tokens to read", fallback: 512 },
  tokens: { kind: "count", placeholder: "TOKENS", range: SIZE, description: "tokens to write", fallback: 64 },
  depth: { kind: "count", placeholder: "TOKENS", range: { from: 0, to: 2 ** 20 }, description: "for writing late in a context, 0 for none", fallback: 4096 },
  "depth-types": { kind: "text", placeholder: "LIST", description: "types measured at that depth", fallback: "the first type" },
  threads: { kind: "count", placeholder: "COUNT", range: MANY, description: "our threads", fallback: "our own choice" },
  "peer-threads": { kind: "text", placeholder: "LIST", description: "the peer's; the best of them counts", fallback: "1, 2 and as many as there are" },
  quick: { kind: "flag", description: "one run, no depth, no trial of the peer's attention" },
  keep: { kind: "flag", description: "keep the synthetic files" },
  check: { kind: "flag", description: "fail where a target is missed" },
} as const satisfies OptionTable;

interface Settings {
  readonly shape: string;
  readonly types: readonly string[];
  readonly depthTypes: readonly string[];
  readonly runs: number;
  readonly prompt: number;
  readonly tokens: number;
  readonly depth: number;
  readonly threads: number | undefined;
  readonly peerThreads: readonly number[];
  readonly triesAttention: boolean;
  readonly keep: boolean;
  readonly resultFolder: string;
}

export async function run(args: readonly string[]): Promise<number> {
  if (args.includes("--help")) {
    console.log(describeOptions());
    return 0;
  }
  const { values } = parseOptions("bench:peers", OPTIONS, args);
  const settings = settingsOf(values);
  mkdirSync(CACHE, { recursive: true });
  const [load] = loadavg();
  if (load > BUSY_LOAD) say(`the machine is busy (load ${load.toFixed(1)}); figures will suffer`);
  const comparisons: Comparison[] = [];
  let machine: Machine | undefined;
  for (const type of settings.types) {
    const path = join(CACHE, `${settings.shape}-${type}.gguf`);
    try {
      say(`${type}: writing the model`);
      await synthesise(settings.shape, type, path);
      const measured = await measureType(type, path, settings);
      machine ??= measured.machine;
      comparisons.push(...measured.comparisons);
      console.log(describe(measured.comparisons));
    } finally {
      if (!settings.keep) rmSync(path, { force: true });
    }
  }
  writeResults(settings, comparisons, machine);
  const missed = comparisons.filter(({ met }) => met === false);
  console.log(missed.length === 0 ? "every target is met" : `missed: ${missed.map(({ type, metric }) => `${metric} ${type}`).join(", ")}`);
  return values.check && missed.length > 0 ? 1 : 0;
}

function describeOptions(): string {
  const rows = Object.entries(OPTIONS as OptionTable).map(([name, { description, fallback }]) => [`--${name}`, description, fallback === undefined ? "" : `default: ${fallback}`]);
  return `usage: npm run bench:peers -- [options]\n\n${formatTable(rows)}`;
}

function settingsOf(values: OptionValues<typeof OPTIONS>): Settings {
  const list = (text: string): string[] => text.split(",").map((word) => word.trim()).filter((word) => word !== "");
  const types = list(values.types ?? OPTIONS.types.fallback);
  const cores = availableParallelism();
  const peerThreads = values["peer-threads"] === undefined ? [1, 2, cores].filter((count) => count <= cores) : list(values["peer-threads"]).map(Number);
  return {
    shape: values.shape ?? OPTIONS.shape.fallback,
    types,
    depthTypes: values["depth-types"] === undefined ? types.slice(0, 1) : list(values["depth-types"]),
    runs: values.runs ?? (values.quick ? 1 : OPTIONS.runs.fallback),
    prompt: values.prompt ?? OPTIONS.prompt.fallback,
    tokens: values.tokens ?? OPTIONS.tokens.fallback,
    depth: values.depth ?? (values.quick ? 0 : OPTIONS.depth.fallback),
    threads: values.threads,
    peerThreads: [...new Set(peerThreads)],
    triesAttention: !values.quick,
    keep: values.keep,
    resultFolder: values.quick ? CACHE : RESULTS,
  };
}

type Machine = Pick<BenchReport, "backend" | "isa" | "threads" | "kvCacheType" | "readBandwidth">;

async function measureType(type: string, modelPath: string, settings: Settings): Promise<{ comparisons: Comparison[]; machine: Machine }> {
  const { prompt, tokens, depth, runs } = settings;
  const work: Workload = { modelPath, promptTokens: prompt, decodeTokens: tokens, depth: 0 };
  const near = await compareWorkload(`${type}: reading and writing`, work, settings);
  const comparisons = [
    compare(type, "decode", near.ours.map(({ decode }) => decode?.tokensPerSecond ?? 0), near.peerSamples("decode")),
    compare(type, "prefill", near.ours.map(({ prefill }) => prefill?.tokensPerSecond ?? 0), near.peerSamples("prefill")),
  ];
  const shares = near.ours.flatMap(({ decode }) => decode?.bandwidthShare ?? []);
  if (shares.length > 0) comparisons.push(compare(type, "bandwidth", shares, [], (share) => share));
  if (depth > 0 && settings.depthTypes.includes(type)) {
    const far = await compareWorkload(`${type}: writing at depth ${depth}`, { ...work, promptTokens: 0, depth }, settings);
    comparisons.push(compare(type, "decode-at-depth", far.ours.map(({ decode }) => decode?.tokensPerSecond ?? 0), far.peerSamples("decode")));
  }
  comparisons.push(...(await compareStarts(type, modelPath, near.setups, near.ours[0], settings)));
  say(`${type}: done, ${countOf(runs, "run")} each`);
  const { backend, isa, threads, kvCacheType, readBandwidth } = near.ours[0];
  return { comparisons, machine: { backend, isa, threads, kvCacheType, readBandwidth } };
}

/** Ours and every setup of the peer in turn, beginning with another one each time. */
async function compareWorkload(what: string, work: Workload, settings: Settings) {
  const stateOf = (flashAttention: boolean): string => `${work.modelPath}.${flashAttention ? "flash" : "plain"}.state`;
  const peer = (setup: PeerSetup) => runPeer(work, setup, stateOf(setup.flashAttention));
  try {
    const flashAttention = await betterAttention(what, peer, settings);
    const setups = settings.peerThreads.map((threads): PeerSetup => ({ threads, flashAttention }));
    const ours: BenchReport[] = [];
    const peers = setups.map((setup) => ({ ...setup, decode: [] as number[], prefill: [] as number[] }));
    const turns = [
      async () => void ours.push(await runOurs(work, settings.threads)),
      ...peers.map((kept) => async () => {
        const { decode, prefill } = await peer(kept);
        if (decode !== undefined) kept.decode.push(decode);
        if (prefill !== undefined) kept.prefill.push(prefill);
      }),
    ];
    for (let round = 0; round < settings.runs; round++) {
      say(`${what}, run ${round + 1} of ${settings.runs}`);
      for (let turn = 0; turn < turns.length; turn++) await turns[(round + turn) % turns.length]();
    }
    const peerSamples = (metric: "decode" | "prefill"): PeerSamples[] => peers.map((kept) => ({ ...kept, samples: kept[metric] }));
    return { ours, setups, peerSamples };
  } finally {
    for (const flashAttention of [true, false]) rmSync(stateOf(flashAttention), { force: true });
  }
}

/** The peer has two ways to attend, and which is faster depends on the machine: both are tried, the better is kept. */
async function betterAttention(what: string, peer: (setup: PeerSetup) => ReturnType<typeof runPeer>, settings: Settings): Promise<boolean> {
  if (!settings.triesAttention) return true;
  say(`${what}: trying both of the peer's ways to attend`);
  const threads = Math.max(...settings.peerThreads);
  const scores = new Map<boolean, number>();
  // A first process warms the page cache, and where there is a depth it pays for it.
  await peer({ threads, flashAttention: true });
  for (const flashAttention of [false, true]) {
    const { decode = 1, prefill = 1 } = await peer({ threads, flashAttention });
    scores.set(flashAttention, decode * prefill);
  }
  return (scores.get(true) ?? 0) >= (scores.get(false) ?? 0);
}

async function compareStarts(type: string, modelPath: string, setups: readonly PeerSetup[], report: BenchReport, settings: Settings): Promise<Comparison[]> {
  const ours = { firstToken: [] as number[], memory: [] as number[] };
  const peers = setups.map((setup) => ({ ...setup, firstToken: [] as number[], memory: [] as number[] }));
  for (let round = 0; round < settings.runs; round++) {
    say(`${type}: process start to first token, run ${round + 1} of ${settings.runs}`);
    const start = await startOurs(modelPath, settings.threads);
    ours.firstToken.push(start.firstTokenMs);
    ours.memory.push(start.peakRssBytes);
    for (const kept of peers) {
      const peerStart = await startPeer(modelPath, kept);
      kept.firstToken.push(peerStart.firstTokenMs);
      kept.memory.push(peerStart.peakRssBytes);
    }
  }
  const samplesOf = (metric: "firstToken" | "memory"): PeerSamples[] => peers.map((kept) => ({ ...kept, samples: kept[metric] }));
  // The process started has a smaller cache than the benchmark; leaving it out makes the target a little harder.
  const ofFile = (peakBytes: number): number => peakBytes / report.model.sizeBytes;
  return [compare(type, "first-token", ours.firstToken, samplesOf("firstToken")), compare(type, "memory", ours.memory, samplesOf("memory"), ofFile)];
}

function describe(comparisons: readonly Comparison[]): string {
  const rows = comparisons.map((row) => {
    const { type, metric, ours, peer, ratio } = row;
    const show = (value: number): string => formatFigure(metric, value);
    const how = peer === undefined ? "" : `${countOf(peer.threads, "thread")}, flash attention ${peer.flashAttention ? "on" : "off"}`;
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
    ];
  });
  const alignments = ["left", "left", "right", "left", "right", "left", "right", "left", "left"] as const;
  return formatTable([["type", "what", "ours", "", PEER_NAME, "", "ratio", "target", "peer's better setup"], ...rows], alignments);
}

function writeResults(settings: Settings, comparisons: readonly Comparison[], machine: Machine | undefined): void {
  const { shape, runs, prompt, tokens, depth, peerThreads, resultFolder } = settings;
  mkdirSync(resultFolder, { recursive: true });
  const [{ model: cpu }] = cpus();
  const about = { shape, cpu, cores: availableParallelism(), node: process.version, date: new Date().toISOString().slice(0, 10), runs, prompt, tokens, depth, peerThreads };
  const path = join(resultFolder, `peers-${shape}`);
  writeFileSync(`${path}.json`, `${JSON.stringify({ ...about, ours: machine, comparisons }, undefined, 2)}\n`);
  const note = `${cpu}, ${about.cores} cores; medians of ${runs} interleaved runs; npm run bench:peers`;
  writeFileSync(`${path}.svg`, drawPicture(comparisons, { title: `${shape}, random weights: ROCmForge and ${PEER_NAME} on one CPU`, note }));
  say(`numbers and picture: ${path}.json, ${path}.svg`);
}

function say(sentence: string): void {
  process.stderr.write(`bench:peers: ${sentence}\n`);
}
