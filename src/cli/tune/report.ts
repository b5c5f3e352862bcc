// The result of `rocmforge tune`, as data with stable names and as text; and what of it a benchmark shows.

import type { TunedChoice, TuneReport } from "../../backends/tuning.js";
import { countOf, formatRate, formatTable, printable } from "../format.js";

/** Gains below this are noise. */
const SHOWN_GAIN = 0.001;

/** What tuning a model gave, as `--json` prints it. */
export interface TunedModel extends TuneReport {
  readonly backend: string;
  readonly summary: string;
  /** Tokens per second of one decoding sequence, before and after. */
  readonly decode: { readonly before: number; readonly after: number };
}

/** A report as text: a line for every choice, then what was gained. */
export function describeTuning({ choices, ...report }: TunedModel): string {
  const header = ["kernel", "shape", "parameters", "µs before", "µs after", "gain"];
  const rows = choices.map((choice) => [
    choice.kernel,
    printable(choice.shape),
    describeParameters(choice),
    describeTime(choice.beforeUs),
    describeTime(choice.afterUs),
    describeGain(gainOf([choice])),
  ]);
  const { tried, rejected, seconds, isComplete, keptIn, decode } = report;
  const wrong = rejected === 0 ? "" : `, ${countOf(rejected, "candidate")} rejected`;
  const end = isComplete ? "" : "; the time was up, so the rest is as before";
  return [
    `backend ${report.backend}: ${report.summary}`,
    "",
    ...(rows.length === 0
      ? []
      : [formatTable([header, ...rows], ["left", "left", "left", "right", "right", "right"]), ""]),
    `${countOf(choices.length, "choice")} from ${countOf(tried, "candidate")} in ${seconds.toFixed(0)} s${wrong}${end}`,
    `decode ${formatRate(decode.before)} → ${formatRate(decode.after)} tokens/s`,
    keptIn === null ? "nothing was kept" : `kept in ${printable(keptIn)}`,
  ].join("\n");
}

/** One line for a benchmark: how many choices are in use, and what they gained when they were made. */
export function describeChoices(choices: readonly TunedChoice[]): string {
  if (choices.length === 0) return "nothing (rocmforge tune)";
  const changed = choices.filter(({ before, after }) => namesOfChanges(before, after).length > 0);
  const gain = describeGain(gainOf(choices));
  return `${countOf(choices.length, "choice")}, ${changed.length} other than the default, gained ${gain} of their time when they were tuned`;
}

/** The share of time that choices saved; undefined if their times are not known. */
export function gainOf(choices: readonly TunedChoice[]): number | undefined {
  const timed = choices.filter(({ beforeUs, afterUs }) => beforeUs !== null && afterUs !== null);
  const sum = (time: (choice: TunedChoice) => number | null): number =>
    timed.reduce((total, choice) => total + (time(choice) ?? 0), 0);
  const before = sum(({ beforeUs }) => beforeUs);
  return before === 0 ? undefined : 1 - sum(({ afterUs }) => afterUs) / before;
}

function describeGain(gain: number | undefined): string {
  if (gain === undefined) return "–";
  return Math.abs(gain) < SHOWN_GAIN ? "0 %" : `${(gain * 100).toFixed(1)} %`;
}

function describeTime(microseconds: number | null): string {
  return microseconds === null ? "–" : microseconds.toFixed(microseconds < 100 ? 2 : 0);
}

function describeParameters({ before, after }: TunedChoice): string {
  const changed = namesOfChanges(before, after);
  if (changed.length === 0) return "as before";
  return changed.map((name) => `${name} ${before[name] ?? "–"} → ${after[name]}`).join(", ");
}

function namesOfChanges(before: TunedChoice["before"], after: TunedChoice["after"]): readonly string[] {
  return Object.keys(after).filter((name) => before[name] !== after[name]);
}
