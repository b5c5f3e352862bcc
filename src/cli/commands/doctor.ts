// `rocmforge doctor`: what this machine and this installation can do, what is wrong and what to do, as Markdown for an
// issue; repairs what can be repaired. Status 0 if nothing is wrong that keeps `auto` from choosing a native backend; with
// --fix also 1 if something that it should have repaired is still broken.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { buildAddon } from "../addon-build.js";
import { defineCommand } from "../command.js";
import { examine, type Health, shareable } from "../doctor/health.js";
import { redacted } from "../doctor/redaction.js";
import { repair } from "../doctor/repairs.js";
import { describeHealth } from "../doctor/report-text.js";
import { printable } from "../format.js";
import { GENERAL_OPTIONS } from "../model-options.js";
import type { OptionTable } from "../option-table.js";

const NAME = "doctor";
/** Far more than a report has. */
const MAX_REPORT_BYTES = 64 * 2 ** 20;

const OPTIONS = {
  fix: { kind: "flag", description: "repair what can be repaired: the native addon, the kernel cache, dead downloads" },
  build: { kind: "flag", description: "rebuild the native addon first" },
  json: { kind: "flag", description: "print one JSON object" },
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The command `doctor`. */
export const doctor = defineCommand({
  name: NAME,
  summary: "reports what can run on this machine and what is wrong, for an issue; repairs what it can",
  about: [
    "The report is Markdown without secrets: paste it into an issue. Home folders are shown as ~, and tokens and keys only",
    "as set or not. --fix builds the native addon if it is missing or broken, removes damaged, unfinished and long unused",
    "entries of the kernel cache, and locks and partial downloads that no process has written to for a week; it never",
    "touches a complete model. Building needs Python 3, make and a C++17 compiler (on Debian: apt-get install python3 make",
    "g++). Status 0 if --backend auto chooses a native backend and, with --fix, nothing is left to repair.",
  ],
  positionals: [],
  options: OPTIONS,
  examples: [
    { what: "the report for an issue", line: "rocmforge doctor" },
    { what: "repair what can be repaired", line: "rocmforge doctor --fix" },
    { what: "after installing a compiler", line: "rocmforge doctor --build" },
  ],
  async run(values, _positionals, { output }) {
    // Before anything is loaded: a process keeps the addon that it loaded first.
    const failure = values.build ? await buildAddon() : undefined;
    const health = values.fix ? await repaired() : shareable(await examine(NAME));
    const report = values.build ? { ...health, build: { built: failure === undefined, ...failure } } : health;
    if (values.json) await output.writeJson(report);
    else await output.write(describeHealth(report));
    const isWrong = report.problems.some(({ severity, repair: kind }) => severity === "error" || (values.fix && kind));
    const hasFailed = report.repairs?.some((done) => done.failure !== undefined) === true;
    return failure !== undefined || isWrong || hasFailed ? 1 : 0;
  },
});

/** Repairs what is broken; the report is that of another process, because this one keeps the addon that it has loaded. */
async function repaired(): Promise<Health> {
  const before = await examine(NAME);
  const announce = (text: string): void => void process.stderr.write(`rocmforge: ${printable(redacted(text))}\n`);
  const repairs = redacted(await repair(before, announce));
  return { ...(repairs.length === 0 ? shareable(before) : await examineAgain()), repairs };
}

async function examineAgain(): Promise<Health> {
  const args = [process.argv[1], NAME, "--json"];
  const options = { encoding: "utf8", maxBuffer: MAX_REPORT_BYTES } as const;
  try {
    const { stdout } = await promisify(execFile)(process.execPath, args, options);
    return JSON.parse(stdout) as Health;
  } catch (error) {
    // Status 1 says that something is wrong; the report says what.
    if (error instanceof Error && "stdout" in error && typeof error.stdout === "string" && error.stdout.startsWith("{"))
      return JSON.parse(error.stdout) as Health;
    throw error;
  }
}
