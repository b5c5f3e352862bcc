// This engine beside node-llama-cpp on the same synthetic files: `npm run bench:peers`. Runs are interleaved, each in
// its own process; figures are medians. Prints a table, and writes the numbers and a chart to bench/results/.

import { mkdirSync, rmSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { OptionError } from "../src/errors.js";
import type { BenchReport } from "../src/cli/bench/report.js";
import { Interrupt } from "../src/cli/interrupt.js";
import { type Comparison, describeVerdict, expectedTargets, judgeAll } from "./peers/comparison.js";
import { createEngines, synthesise } from "./peers/engines.js";
import { describeComparisons, writeResults } from "./peers/results.js";
import { measureType } from "./peers/rounds.js";
import { CACHE_FOLDER, describeOptions, parseSettings, type Settings } from "./peers/settings.js";

const WRONG_USAGE = 2;
/** The load average above which figures are unreliable. */
const BUSY_LOAD = 0.7;

export async function run(args: readonly string[]): Promise<number> {
  const settings = settingsOf(args);
  if (settings === undefined) return WRONG_USAGE;
  if (settings.help) {
    console.log(describeOptions());
    return 0;
  }
  const [load] = loadavg();
  if (load > BUSY_LOAD) say(`the machine is busy (load ${load.toFixed(1)}); figures will suffer`);
  using interruption = new Interrupt({ ignoresRepeats: true });
  try {
    const comparisons = await measureAll(settings, interruption.signal);
    const verdict = judgeAll(expectedTargets(settings.types, settings.depthTypes), comparisons);
    console.log(describeVerdict(verdict, settings.types));
    return settings.check && verdict.missed.length + verdict.notMeasured.length > 0 ? 1 : 0;
  } catch (error) {
    if (!interruption.signal.aborted) throw error;
    say("interrupted");
    return interruption.exitStatus;
  }
}

function settingsOf(args: readonly string[]): Settings | undefined {
  try {
    return parseSettings(args);
  } catch (error) {
    if (!(error instanceof OptionError)) throw error;
    // The message is written for a command of `rocmforge`, which this is not.
    say(
      error.message
        .replace("[bench:peers] ", "")
        .replace("rocmforge bench:peers --help", "npm run bench:peers -- --help"),
    );
    return undefined;
  }
}

/** Measures all types; results are written after each type, so that an interrupted run is not lost. */
async function measureAll(settings: Settings, signal: AbortSignal): Promise<Comparison[]> {
  mkdirSync(CACHE_FOLDER, { recursive: true });
  const engines = createEngines({ threads: settings.threads, llamaBench: settings.llamaBench, signal });
  const comparisons: Comparison[] = [];
  let firstReport: BenchReport | undefined;
  for (const type of settings.types) {
    const path = join(CACHE_FOLDER, `${settings.shape}-${type}.gguf`);
    try {
      say(`${type}: writing the model`);
      await synthesise(settings.shape, type, path, signal);
      const measured = await measureType(type, path, { engines, settings, say });
      firstReport ??= measured.report;
      comparisons.push(...measured.comparisons);
      console.log(describeComparisons(measured.comparisons));
    } finally {
      if (!settings.keep) rmSync(path, { force: true });
    }
    const results = writeResults(settings, comparisons, firstReport);
    say(`numbers and picture: ${results}.json, ${results}.svg`);
  }
  return comparisons;
}

function say(sentence: string): void {
  process.stderr.write(`bench:peers: ${sentence}\n`);
}
