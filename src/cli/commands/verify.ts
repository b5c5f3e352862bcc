// `rocmforge verify`: runs the conformance suite on a backend of this machine and prints a report to paste. Status 0 only if
// every case passes.

import { availableParallelism } from "node:os";
import { AUTO_BACKEND, createBackend, detectDevices, type DeviceReport } from "../../backends/registry.js";
import type { Backend } from "../../backends/contract.js";
import { PACKAGE_VERSION } from "../../package-files.js";
import { type FamilyResult, verifyBackend } from "../../verify/verification.js";
import { defineCommand } from "../command.js";
import { redacted } from "../doctor/redaction.js";
import { backendOptions, GENERAL_OPTIONS, MODEL_OPTIONS } from "../model-options.js";
import type { OptionTable } from "../option-table.js";
import { describeVerification, type VerifyReport } from "../verify-report.js";

/** The backend whose results are right by definition. */
const ORACLE = "reference";
const CHECKS_VARIABLE = "ROCMFORGE_GPU_CHECKS";
const GPU_BACKENDS: readonly string[] = ["hip", "cuda"];
/** The number of processes that compile kernels. */
const MAX_CASES_AT_A_TIME = 16;
/** Device and pinned memory that is left to a case in flight; the largest one takes as much with steps of 4,096 tokens. */
const CASE_BYTES = 320 * 2 ** 20;

const OPTIONS = {
  backend: MODEL_OPTIONS.backend,
  device: MODEL_OPTIONS.device,
  threads: MODEL_OPTIONS.threads,
  deterministic: MODEL_OPTIONS.deterministic,
  full: { kind: "flag", description: "all types of weights and more sizes; minutes instead of seconds" },
  json: { kind: "flag", description: "print one JSON object" },
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The command `verify`. */
export const verify = defineCommand({
  name: "verify",
  summary: "compares every operation of a backend with the reference on this machine, for a report",
  about: [
    "Runs the conformance suite from the installed package: every operation, over types of weights, widths and numbers of",
    "tokens, against plain TypeScript. No model is needed. The report is Markdown without secrets: paste it into an issue,",
    "also if everything passed on a card that nobody has tried yet. Kernels are tried as they are compiled, those included",
    "that were replaced on this card because they had computed wrong results. Status 0 only if every case passes.",
  ],
  positionals: [],
  options: OPTIONS,
  examples: [
    { what: "the best backend of this machine", line: "rocmforge verify" },
    { what: "all types on the second GPU", line: "rocmforge verify --backend hip --device 1 --full" },
  ],
  async run(values, _positionals, { output }) {
    // Otherwise the backend would replace the kernels that this command is to report.
    process.env[CHECKS_VARIABLE] ??= "driver";
    const start = performance.now();
    // Cases compile the kernels that they need and no others.
    const options = { ...backendOptions(values), prewarm: false };
    await using backend = await createBackend(values.backend ?? AUTO_BACKEND, options);
    await using oracle = await createBackend(ORACLE);
    const casesAtATime = casesInFlight(backend);
    const families = await verifyBackend(backend, { oracle, full: values.full, casesAtATime, onFamily: reportFamily });
    const { name, summary } = backend.description;
    const report = redacted<VerifyReport>({
      rocmforge: PACKAGE_VERSION,
      node: process.version,
      platform: `${process.platform}-${process.arch}`,
      backend: name,
      summary,
      ...(await driverOf(name)),
      full: values.full,
      families,
      notices: backend.notices?.() ?? [],
      seconds: (performance.now() - start) / 1000,
      passed: families.every(isRight),
    });
    if (values.json) await output.writeJson(report);
    else await output.write(describeVerification(report));
    return report.passed ? 0 : 1;
  },
});

/** On a GPU one for each processor, so that all of them compile kernels, if the memory of the device suffices. */
function casesInFlight(backend: Backend): number {
  if (!GPU_BACKENDS.includes(backend.description.name)) return 1;
  const { availableBytes } = backend.memory();
  return Math.max(1, Math.min(MAX_CASES_AT_A_TIME, availableParallelism(), Math.floor(availableBytes / CASE_BYTES)));
}

/** A line on stderr, also if that is a file or a pipe. */
function reportFamily({ family, passed, failed, skipped, milliseconds }: FamilyResult): void {
  const counts = [`${passed} passed`, `${failed.length} failed`, ...(skipped > 0 ? [`${skipped} not supported`] : [])];
  process.stderr.write(`rocmforge: verified ${family}: ${counts.join(", ")} (${(milliseconds / 1000).toFixed(1)} s)\n`);
}

function isRight({ failed }: FamilyResult): boolean {
  return failed.length === 0;
}

/** Driver and compiler of a GPU backend; nothing for others. */
async function driverOf(backend: string): Promise<Pick<VerifyReport, "driver" | "compiler">> {
  if (!GPU_BACKENDS.includes(backend)) return {};
  const found: DeviceReport | undefined = (await detectDevices()).find((report) => report.backend === backend);
  return {
    ...(found?.driver === undefined ? {} : { driver: `${found.driver.version} (${found.driver.library})` }),
    ...(found?.compiler === undefined ? {} : { compiler: found.compiler }),
  };
}
