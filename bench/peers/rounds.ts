// Measures one type of file on both engines in turn. Every setup of the peer takes part in all rounds, so that the best
// one is chosen by medians, separately for each figure.

import { rmSync, statSync } from "node:fs";
import { type LongPrompt, longPrompt } from "../../src/cli/bench/long-prompt.js";
import type { BenchReport } from "../../src/cli/bench/report.js";
import { loadTokenizer } from "../../src/index.js";
import { type Comparison, compare, type CompareOptions, memoryJudge, type PeerSamples } from "./comparison.js";
import type { Engines, PeerSetup, Speeds, Workload } from "./engines.js";
import type { Settings } from "./settings.js";

export type RoundSettings = Pick<
  Settings,
  "runs" | "prompt" | "tokens" | "depth" | "depthTypes" | "peerThreads" | "triesAttention"
>;

export interface RoundContext {
  readonly engines: Engines;
  readonly settings: RoundSettings;
  readonly say: (sentence: string) => void;
}

export interface TypeResult {
  readonly comparisons: readonly Comparison[];
  /** The report of our first run, for its description of the machine. */
  readonly report: BenchReport;
}

export async function measureType(
  type: Settings["types"][number],
  modelPath: string,
  context: RoundContext,
): Promise<TypeResult> {
  const { prompt, tokens, depth, depthTypes } = context.settings;
  const work: Workload = { modelPath, promptTokens: prompt, decodeTokens: tokens, depth: 0 };
  const near = await runRounds(`${type}: reading and writing`, work, context);
  const comparisons = [
    compare(
      type,
      "decode",
      near.ours.map(({ decode }) => decode?.tokensPerSecond ?? 0),
      near.peerSamples("decode"),
      near.beside("decode"),
    ),
    compare(
      type,
      "prefill",
      near.ours.map(({ prefill }) => prefill?.tokensPerSecond ?? 0),
      near.peerSamples("prefill"),
      near.beside("prefill"),
    ),
  ];
  const shares = near.ours.flatMap(({ decode }) => decode?.bandwidthShare ?? []);
  if (shares.length > 0) comparisons.push(compare(type, "bandwidth", shares, [], { judge: (share) => share }));
  if (depth > 0 && depthTypes.includes(type)) {
    const far = await runRounds(`${type}: writing at depth ${depth}`, { ...work, promptTokens: 0, depth }, context);
    comparisons.push(
      compare(
        type,
        "decode-at-depth",
        far.ours.map(({ decode }) => decode?.tokensPerSecond ?? 0),
        far.peerSamples("decode"),
        far.beside("decode"),
      ),
    );
  }
  comparisons.push(await compareStarts(type, modelPath, near.setups, context));
  comparisons.push(await compareMemory(type, modelPath, near.setups, context));
  return { comparisons, report: near.ours[0] };
}

type SpeedName = keyof Speeds;
const SPEEDS: readonly SpeedName[] = ["decode", "prefill"];

interface PeerRuns {
  readonly setup: PeerSetup;
  readonly samples: { readonly [Name in SpeedName]: number[] };
}

export interface Rounds {
  readonly ours: readonly BenchReport[];
  readonly setups: readonly PeerSetup[];
  peerSamples(name: SpeedName): PeerSamples[];
  /** The figure of llama.cpp's own benchmark, if it took part. */
  beside(name: SpeedName): CompareOptions;
}

/** Runs our engine and every setup of the peer in turn, each round starting with another one. */
export async function runRounds(
  what: string,
  work: Workload,
  { engines, settings, say }: RoundContext,
): Promise<Rounds> {
  const { runs, peerThreads, triesAttention } = settings;
  const mostThreads = Math.max(...peerThreads);
  const stateOf = (flashAttention: boolean): string => `${work.modelPath}.${flashAttention ? "flash" : "plain"}.state`;
  const runPeer = (setup: PeerSetup): Promise<Speeds> => engines.peer(work, setup, stateOf(setup.flashAttention));
  const ours: BenchReport[] = [];
  const peers: PeerRuns[] = [];
  const llamaBench = newSamples();
  const turns: (() => Promise<void>)[] = [async () => void ours.push(await engines.ours(work))];
  const addPeer = (setup: PeerSetup): (() => Promise<void>) => {
    const samples = newSamples();
    peers.push({ setup, samples });
    const turn = async (): Promise<void> => keep(samples, await runPeer(setup));
    turns.push(turn);
    return turn;
  };
  try {
    for (const threads of peerThreads) addPeer({ threads, flashAttention: true });
    const { llamaBench: runLlamaBench } = engines;
    if (runLlamaBench !== undefined) turns.push(async () => keep(llamaBench, await runLlamaBench(work, mostThreads)));
    // The first process warms the page cache and, if there is a depth, evaluates it.
    if (triesAttention) await runPeer({ threads: mostThreads, flashAttention: true });
    for (let round = 0; round < runs; round++) {
      say(`${what}, run ${round + 1} of ${runs}`);
      const count = turns.length;
      for (let turn = 0; turn < count; turn++) await turns[(round + turn) % count]();
      if (round > 0 || !triesAttention) continue;
      // The other attention setting takes part only at the best thread counts: at others it could not win.
      for (const threads of bestThreads(peers)) {
        const setup = { threads, flashAttention: false };
        if (work.depth > 0) await runPeer(setup);
        await addPeer(setup)();
      }
    }
  } finally {
    for (const flashAttention of [true, false]) rmSync(stateOf(flashAttention), { force: true });
  }
  return {
    ours,
    setups: peers.map(({ setup }) => setup),
    peerSamples: (name) => peers.map(({ setup, samples }) => ({ ...setup, samples: samples[name] })),
    beside: (name) => ({ llamaBench: { threads: mostThreads, samples: llamaBench[name] } }),
  };
}

function newSamples(): PeerRuns["samples"] {
  return { decode: [], prefill: [] };
}

function keep(samples: PeerRuns["samples"], found: Speeds): void {
  for (const name of SPEEDS) {
    const speed = found[name];
    if (speed !== undefined) samples[name].push(speed);
  }
}

/** The best thread count for each measured speed; often the same. */
function bestThreads(peers: readonly PeerRuns[]): number[] {
  const best = SPEEDS.flatMap((name) => {
    const [first] = peers
      .filter(({ samples }) => samples[name].length > 0)
      .toSorted((left, right) => right.samples[name][0] - left.samples[name][0]);
    return first === undefined ? [] : [first.setup.threads];
  });
  return [...new Set(best)];
}

async function compareStarts(
  type: string,
  modelPath: string,
  setups: readonly PeerSetup[],
  { engines, settings, say }: RoundContext,
): Promise<Comparison> {
  const ours: number[] = [];
  const peers = setups.map((setup) => ({ setup, samples: [] as number[] }));
  for (let round = 0; round < settings.runs; round++) {
    say(`${type}: process start to first token, run ${round + 1} of ${settings.runs}`);
    ours.push((await engines.startOurs(modelPath)).firstTokenMs);
    for (const { setup, samples } of peers) samples.push((await engines.startPeer(modelPath, setup)).firstTokenMs);
  }
  return compare(
    type,
    "first-token",
    ours,
    peers.map(({ setup, samples }) => ({ ...setup, samples })),
  );
}

/** Threads make no difference to the peer's memory, so only its fastest setup is measured. */
async function compareMemory(
  type: string,
  modelPath: string,
  setups: readonly PeerSetup[],
  { engines, settings, say }: RoundContext,
): Promise<Comparison> {
  const prompt: LongPrompt = longPrompt(await loadTokenizer(modelPath), settings.prompt);
  const [setup] = setups.toSorted((left, right) => right.threads - left.threads);
  const ours: number[] = [];
  const peer: number[] = [];
  for (let round = 0; round < settings.runs; round++) {
    say(`${type}: memory for ${prompt.tokens} tokens, run ${round + 1} of ${settings.runs}`);
    ours.push((await engines.readOurs(modelPath, prompt)).peakRssBytes);
    peer.push((await engines.readPeer(modelPath, prompt, setup)).peakRssBytes);
  }
  const judge = memoryJudge(statSync(modelPath).size, await engines.kvCacheBytes(modelPath, prompt));
  return compare(type, "memory", ours, [{ ...setup, samples: peer }], { judge });
}
