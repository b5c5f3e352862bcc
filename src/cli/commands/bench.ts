// `rocmforge bench`: prefill and decode speed of a model on this machine, as a share of the memory bandwidth, and the
// time to first token.

import type { Backend } from "../../backends/contract.js";
import { createBackend } from "../../backends/registry.js";
import { openPlan } from "../../engine/open-plan.js";
import type { GgufFile } from "../../gguf/file.js";
import type { ExecutionPlan } from "../../plan/execution-plan.js";
import { bytesPerToken } from "../bench/bytes-read.js";
import { prefillMultiplyAdds } from "../bench/multiply-adds.js";
import { type BenchReport, decodeRate, describeReport, prefillRate, rateOf } from "../bench/report.js";
import { decodeWithDrafts, type DraftedDecode } from "../bench/drafts.js";
import { BenchRunner, type BenchSizes, contextFor } from "../bench/runner.js";
import { spreadOf } from "../bench/spread.js";
import { startProcesses, type Starts } from "../bench/starts.js";
import { defineCommand } from "../command.js";
import { formatBytes } from "../format.js";
import { Interrupt } from "../interrupt.js";
import { DRAFT_OPTIONS, draftOptions } from "../draft-options.js";
import { modelFile } from "../model-file.js";
import { backendOptions, GENERAL_OPTIONS, loadOptions, MODEL_OPTIONS, planOptions } from "../model-options.js";
import { type OptionTable, type OptionValues, wrongValue } from "../option-table.js";
import { Progress } from "../progress.js";
import { gainOf } from "../tune/report.js";

const NAME = "bench";
const DEFAULTS = { prompt: 512, tokens: 128, depth: 0, sequences: 1, repeat: 5, starts: 3 } as const;
const MAX_TOKENS = 2 ** 20;
const MAX_SEQUENCES = 1024;
const MAX_REPEATS = 1000;
/** Far more than any processor cache holds. */
const BANDWIDTH_BYTES = 2 ** 30;

const { ctx: _ctx, ...PLAIN_MODEL_OPTIONS } = MODEL_OPTIONS;

const OPTIONS = {
  prompt: {
    kind: "count",
    short: "p",
    placeholder: "TOKENS",
    range: { from: 0, to: MAX_TOKENS },
    description: "tokens to prefill, 0 for none",
    fallback: DEFAULTS.prompt,
  },
  tokens: {
    kind: "count",
    short: "n",
    placeholder: "TOKENS",
    range: { from: 0, to: MAX_TOKENS },
    description: "tokens to decode, 0 for none",
    fallback: DEFAULTS.tokens,
  },
  depth: {
    kind: "count",
    short: "d",
    placeholder: "TOKENS",
    range: { from: 0, to: MAX_TOKENS },
    description: "tokens in the KV cache before either",
    fallback: DEFAULTS.depth,
  },
  sequences: {
    kind: "count",
    short: "s",
    placeholder: "COUNT",
    range: { from: 1, to: MAX_SEQUENCES },
    description: "sequences that decode together",
    fallback: DEFAULTS.sequences,
  },
  repeat: {
    kind: "count",
    short: "r",
    placeholder: "COUNT",
    range: { from: 1, to: MAX_REPEATS },
    description: "number of measurements",
    fallback: DEFAULTS.repeat,
  },
  starts: {
    kind: "count",
    placeholder: "COUNT",
    range: { from: 0, to: MAX_REPEATS },
    description: "processes to start for the time to first token",
    fallback: DEFAULTS.starts,
  },
  profile: { kind: "flag", description: "also time each kernel of a step (GPU backends)" },
  json: { kind: "flag", description: "print one JSON object" },
  ...PLAIN_MODEL_OPTIONS,
  ...DRAFT_OPTIONS,
  draft: { ...DRAFT_OPTIONS.draft, fallback: "off" },
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

type Values = OptionValues<typeof OPTIONS> & {
  /** The path of the model's file. */
  readonly model: string;
};

/** The command `bench`. */
export const bench = defineCommand({
  name: NAME,
  summary: "measures a model's speed on this machine",
  about: [
    "Tokens are synthetic and nothing is sampled: this is the speed of the engine. Figures are medians with minimum and",
    "maximum. The read bandwidth is the best of sequential reads before and after, with the same threads, and so is the",
    "dot-product peak of processors that have one: 8-bit dot products of registers alone. With --draft or --draft-model,",
    "text is also generated greedily with drafts; how many are accepted depends on that text.",
  ],
  positionals: [],
  options: OPTIONS,
  examples: [
    { what: "prefill of 512 tokens, decode of 128", line: "rocmforge bench -m model.gguf" },
    {
      what: "only decoding, late in a conversation, as JSON",
      line: "rocmforge bench -m model.gguf -p 0 -n 64 -d 4096 --json",
    },
    {
      what: "16 sequences that decode together, each after 128 tokens",
      line: "rocmforge bench -m model.gguf -p 0 -d 128 -s 16",
    },
    {
      what: "where a decoding step on a GPU goes, kernel by kernel",
      line: "rocmforge bench -m model.gguf -p 0 --profile",
    },
  ],
  async run(given, _positionals, { output }) {
    const sizes = sizesOf(given);
    const values: Values = { ...given, model: await modelFile(given) };
    using interrupt = new Interrupt();
    using progress = new Progress("opening the model");
    const signal = AbortSignal.any([interrupt.signal, output.gone]);
    try {
      const { measured, kvCacheBytesFor } = await measure(values, sizes, progress, signal);
      const { starts: count = DEFAULTS.starts } = values;
      const work = {
        count,
        modelPath: values.model,
        modelArguments: modelArguments(values),
        promptTokens: sizes.promptTokens,
        kvCacheBytesFor,
      };
      const drafts = await measureDrafts(values, sizes, progress, signal);
      const report: BenchReport = { ...measured, drafts, ...(await startProcesses(work, progress, signal)) };
      progress.end();
      if (values.json) await output.writeJson(report);
      else await output.write(`${describeReport(report)}\n`);
      return 0;
    } catch (error) {
      if (!signal.aborted) throw error;
      progress.end();
      return interrupt.exitStatus;
    }
  },
});

function sizesOf({
  prompt = DEFAULTS.prompt,
  tokens = DEFAULTS.tokens,
  depth = DEFAULTS.depth,
  sequences = DEFAULTS.sequences,
}: OptionValues<typeof OPTIONS>): BenchSizes {
  if (prompt === 0 && tokens === 0)
    throw wrongValue(NAME, "tokens", "something to measure: tokens to prefill (-p) or to decode (-n)", "0 of both");
  return { promptTokens: prompt, decodeTokens: tokens, depth, sequences };
}

interface Measurement {
  readonly measured: Omit<BenchReport, keyof Starts | "drafts">;
  /** Size of the KV cache for a context length, in whole blocks. */
  readonly kvCacheBytesFor: (contextTokens: number) => number;
}

async function measure(
  values: Values,
  sizes: BenchSizes,
  progress: Progress,
  signal: AbortSignal,
): Promise<Measurement> {
  const { repeat = DEFAULTS.repeat } = values;
  await using backend = await createBackend(values.backend ?? "auto", backendOptions(values));
  const { loader, plan } = await openPlan(values.model, backend, planOptions({ ...values, ctx: contextFor(sizes) }));
  await using _ = loader;
  if (values.profile === true && !plan.hasKernels)
    throw wrongValue(NAME, "profile", "a GPU backend, whose kernels can be timed", backend.description.name);
  using runner = new BenchRunner(plan, sizes, signal);
  progress.update(sizes.depth === 0 ? "warming up" : `filling the KV cache with ${sizes.depth} tokens`);
  await runner.warmUp();

  const bandwidths = [await readBandwidth(backend, progress)];
  const peaks = [await backend.measureDotProductPeak?.()];
  const prefills: number[] = [];
  const decodes: number[] = [];
  for (let run = 1; run <= repeat; run++) {
    progress.update(`run ${run} of ${repeat}`);
    if (sizes.promptTokens > 0) prefills.push(await runner.prefill());
    if (sizes.decodeTokens > 0) decodes.push(await runner.decode());
  }
  if (values.profile === true) progress.update("timing each kernel of a step");
  const profile = values.profile === true ? await runner.profile() : null;
  bandwidths.push(await readBandwidth(backend, progress));
  peaks.push(await backend.measureDotProductPeak?.());
  const bandwidth = bestOf(bandwidths);
  const peak = bestOf(peaks);
  if (bandwidth === undefined && backend.measureReadBandwidth !== undefined) warnOfMemory(backend);
  const { name, summary, isa = null, threads = null } = backend.description;
  const { kvCacheType } = plan.config;
  const measured: Measurement["measured"] = {
    model: describeModel(loader.file, plan),
    backend: name,
    summary,
    isa,
    threads,
    kvCacheType,
    kvCacheBytes: runner.kvCacheBytes,
    depth: sizes.depth,
    sequences: sizes.sequences,
    repeats: repeat,
    prefill: describePrefills(prefills, plan, sizes, peak),
    decode: decodes.length === 0 ? null : decodeRate(sizes, spreadOf(decodes), bytesPerToken(plan, sizes), bandwidth),
    tuned: tunedBy(backend),
    profile,
    readBandwidth: bandwidth === undefined ? null : { bytesPerSecond: bandwidth, sizeBytes: BANDWIDTH_BYTES },
    dotProductPeak: peak === undefined ? null : { multiplyAddsPerSecond: peak },
  };
  return { measured, kvCacheBytesFor: (contextTokens) => plan.kvCacheBytes(contextTokens) };
}

function bestOf(found: readonly (number | undefined)[]): number | undefined {
  const known = found.filter((value) => value !== undefined);
  return known.length === 0 ? undefined : Math.max(...known);
}

function describePrefills(
  speeds: readonly number[],
  plan: ExecutionPlan,
  { promptTokens }: BenchSizes,
  peak: number | undefined,
): BenchReport["prefill"] {
  if (speeds.length === 0) return null;
  return prefillRate(promptTokens, spreadOf(speeds), prefillMultiplyAdds(plan, promptTokens), peak);
}

/** Null unless drafts are requested. */
async function measureDrafts(
  values: Values,
  { promptTokens, decodeTokens }: BenchSizes,
  progress: Progress,
  signal: AbortSignal,
): Promise<BenchReport["drafts"]> {
  const { draft, "draft-model": draftModel, repeat = DEFAULTS.repeat } = values;
  const isDrafted = draft === undefined ? draftModel !== undefined : draft !== "off";
  if (!isDrafted || decodeTokens === 0) return null;
  progress.update("decoding with drafts");
  const options = { ...loadOptions({ ...values, ctx: undefined }, progress), ...draftOptions(values) };
  const work = { path: values.model, options, promptTokens, decodeTokens, repeat, signal };
  const { spread, draftedTokens, acceptedTokens }: DraftedDecode = await decodeWithDrafts(work);
  return { ...rateOf(decodeTokens, spread), draftedTokens, acceptedTokens };
}

/** Undefined if the backend cannot measure it, or if there is not enough free memory. */
async function readBandwidth(backend: Backend, progress: Progress): Promise<number | undefined> {
  if (backend.memory().availableBytes < 2 * BANDWIDTH_BYTES) return undefined;
  progress.update("measuring the read bandwidth");
  return await backend.measureReadBandwidth?.(BANDWIDTH_BYTES);
}

/** What the kernels of this run were tuned to; null if the backend has no tuner. */
function tunedBy(backend: Backend): BenchReport["tuned"] {
  const choices = backend.tuned?.();
  return choices === undefined ? null : { gain: gainOf(choices) ?? null, choices };
}

function warnOfMemory(backend: Backend): void {
  const needed = `${formatBytes(2 * BANDWIDTH_BYTES)} must be free, ${formatBytes(backend.memory().availableBytes)} are`;
  process.stderr.write(`rocmforge: not enough memory to measure the read bandwidth: ${needed}\n`);
}

function describeModel(file: GgufFile, { parameters }: ExecutionPlan): BenchReport["model"] {
  const bytesByType: Record<string, number> = {};
  for (const { layout, sizeBytes } of file.tensors.values())
    bytesByType[layout.name] = (bytesByType[layout.name] ?? 0) + sizeBytes;
  return {
    path: file.path,
    name: file.metadata.string("general.name") ?? null,
    architecture: parameters.architecture,
    sizeBytes: file.sizeBytes,
    bytesByType,
  };
}

function modelArguments(values: Values): string[] {
  const { backend, threads, device, "kv-type": kvType, deterministic, force } = values;
  const given = (name: string, value: string | number | undefined): string[] =>
    value === undefined ? [] : [`--${name}=${value}`];
  return [
    `--model=${values.model}`,
    ...given("backend", backend),
    ...given("threads", threads),
    ...given("device", device),
    ...given("kv-type", kvType),
    ...(deterministic ? ["--deterministic"] : []),
    ...(force ? ["--force"] : []),
  ];
}
