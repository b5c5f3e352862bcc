// `rocmforge tune`: chooses the parameters of kernels for a model on this machine, and keeps them.

import { createBackend } from "../../backends/registry.js";
import { openPlan } from "../../engine/open-plan.js";
import { BenchRunner, type BenchSizes } from "../bench/runner.js";
import { spreadOf } from "../bench/spread.js";
import { defineCommand } from "../command.js";
import { Interrupt } from "../interrupt.js";
import { modelFile } from "../model-file.js";
import { backendOptions, GENERAL_OPTIONS, MODEL_OPTIONS, planOptions } from "../model-options.js";
import { type OptionTable, type OptionValues, wrongValue } from "../option-table.js";
import { Progress } from "../progress.js";
import { describeTuning, type TunedModel } from "../tune/report.js";

const NAME = "tune";
const DEFAULT_BUDGET_SECONDS = 110;
const MAX_BUDGET_SECONDS = 86_400;
/** What is decoded before and after, to say what was gained as a whole. */
const DECODED: BenchSizes = { promptTokens: 0, decodeTokens: 16, depth: 0, sequences: 1 };
const DECODE_RUNS = 8;
/** Slow machines decode less often. */
const DECODE_MS = 3000;

const OPTIONS = {
  budget: {
    kind: "count",
    placeholder: "SECONDS",
    range: { from: 1, to: MAX_BUDGET_SECONDS },
    description: "time for tuning; what is not done then stays as it is",
    fallback: DEFAULT_BUDGET_SECONDS,
  },
  json: { kind: "flag", description: "print one JSON object" },
  ...MODEL_OPTIONS,
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The command `tune`. */
export const tune = defineCommand({
  name: NAME,
  summary: "finds the fastest kernel parameters for a model on this machine",
  about: [
    "Candidates are compared with the present kernels' results and timed on the model's own weights; the fastest are kept",
    "for every later start with the same device, driver and compiler. With ROCMFORGE_GPU_TUNE=on a GPU is also tuned in the",
    "background while a model is loaded and idle; this command does it at once. On the CPU threads and prefill chunks are",
    "tuned.",
  ],
  positionals: [],
  options: OPTIONS,
  examples: [
    { what: "everything, in less than two minutes", line: "rocmforge tune -m model.gguf" },
    { what: "ten seconds, as JSON", line: "rocmforge tune -m model.gguf --budget 10 --json" },
  ],
  async run(given, _positionals, { output }) {
    const model = await modelFile(given);
    using interrupt = new Interrupt();
    using progress = new Progress("opening the model");
    const signal = AbortSignal.any([interrupt.signal, output.gone]);
    const report = await tuned({ ...given, model }, progress, signal);
    progress.end();
    if (given.json) await output.writeJson(report);
    else await output.write(`${describeTuning(report)}\n`);
    return interrupt.signal.aborted ? interrupt.exitStatus : 0;
  },
});

type Values = OptionValues<typeof OPTIONS> & { readonly model: string };

/** An interrupted run reports what it has kept so far. */
async function tuned(values: Values, progress: Progress, signal: AbortSignal): Promise<TunedModel> {
  const { budget = DEFAULT_BUDGET_SECONDS } = values;
  await using backend = await createBackend(values.backend ?? "auto", backendOptions(values));
  if (backend.tuned === undefined)
    throw wrongValue(NAME, "backend", "one with kernels that can be tuned: hip, cuda, cpu", backend.description.name);
  const { loader, plan } = await openPlan(values.model, backend, planOptions(values));
  await using _ = loader;
  using runner = new BenchRunner(plan, DECODED, new AbortController().signal);
  progress.update("measuring the speed before");
  const before = await decodeRate(runner);
  const report = await plan.tune({
    budgetMs: budget * 1000,
    signal,
    onProgress: ({ done, total, what }) => progress.update(`tuned ${done} of ${total}: ${what}`),
  });
  if (report === undefined) throw new TypeError("the backend has a tuner and its program has none");
  progress.update("measuring the speed after");
  const after = await decodeRate(runner);
  const { name, summary } = backend.description;
  return { backend: name, summary, decode: { before, after }, ...report };
}

/** Tokens per second of one sequence: the best of some runs, the first of which may capture graphs. */
async function decodeRate(runner: BenchRunner): Promise<number> {
  await runner.decode();
  const rates: number[] = [];
  const endMs = performance.now() + DECODE_MS;
  for (let run = 0; run < DECODE_RUNS && (run === 0 || performance.now() < endMs); run++)
    rates.push(await runner.decode());
  return spreadOf(rates).max;
}
