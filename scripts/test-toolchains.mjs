// `npm run test:toolchains [-- --quick | --all] [--update]`: compiles every kernel with real compilers, for cards that are
// not present, holds the hot ones against AMD's public figures, and tests the real HIP runtime without a card. `--update`
// writes the figures into docs/amd.md. Installs Debian packages for it if it may; missing tools are
// skipped with the reason. Ends with a table: toolchain, target, modules, failures, spills. A compile error fails; a
// spill does not.

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bootstrap, ROOT } from "./bootstrap.mjs";
import { countResults } from "./test-count.mjs";
import { main, runProgram, say, ScriptError, seconds, step } from "./tool.mjs";

/** Twice what two busy cores need with an empty cache. */
const GUARD_MS = { quick: 60 * 60_000, usual: 120 * 60_000, all: 12 * 60 * 60_000 };
const INSTALL_LIMIT_MS = 600_000;
const SHOWN_SPILLS = 20;

const runs = (command) => spawnSync(command, ["--version"]).status === 0;
const hasClang = (version) => runs(`clang-${version}`) && runs(`ld.lld-${version}`);
const hasLibrary = (name) => spawnSync("ldconfig", ["-p"], { encoding: "utf8" }).stdout?.includes(name) === true;

/**
 * In order of preference; the first available choice is used. Version 22 compiles gfx11 code correctly that 19 does
 * not.
 */
const WANTED = [
  {
    what: "HIP's runtime and compiler",
    choices: [
      {
        packages: ["libamdhip64-5", "libhiprtc-builtins5"],
        isThere: () => hasLibrary("libamdhip64.so") && hasLibrary("libhiprtc"),
      },
    ],
  },
  {
    what: "HIP's headers",
    choices: [{ packages: ["libamdhip64-dev"], isThere: () => existsSync("/usr/include/hip/hip_runtime.h") }],
  },
  {
    what: "clang",
    choices: [22, 19].map((version) => ({
      packages: [`clang-${version}`, `lld-${version}`],
      isThere: () => hasClang(version),
    })),
  },
  {
    what: "llvm-objdump and llvm-mca",
    choices: [{ packages: ["llvm-22"], isThere: () => runs("llvm-objdump-22") && runs("llvm-mca-22") }],
  },
];

/** A developer's own machine is not changed without permission. */
function whyNotInstall() {
  if (process.getuid?.() !== 0) return "only root can";
  if (spawnSync("apt-get", ["--version"]).status !== 0) return "there is no apt-get";
  const { CI = "", ROCMFORGE_TEST_INSTALL = "" } = process.env;
  const isContainer = ["/.dockerenv", "/run/.containerenv"].some((path) => existsSync(path));
  if (isContainer || ROCMFORGE_TEST_INSTALL === "1" || !["", "0", "false"].includes(CI)) return undefined;
  return "this is no container; ROCMFORGE_TEST_INSTALL=1 allows it";
}

async function aptGet(args) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  return (await runProgram("apt-get", args, { env, timeoutMs: INSTALL_LIMIT_MS })).exitCode === 0;
}

async function installToolchains() {
  let isUpdated = false;
  for (const { what, choices } of WANTED) {
    if (choices[0].isThere()) continue;
    const obstacle = whyNotInstall();
    if (obstacle !== undefined) {
      if (!choices.some(({ isThere }) => isThere()))
        say(
          `warning: ${what} is not installed here because ${obstacle}: apt-get install ${choices[0].packages.join(" ")}`,
        );
      continue;
    }
    // A new image has no package lists, and an old one not the newest.
    if (!isUpdated) await step("asking for Debian's packages (apt-get update)", () => aptGet(["update"]));
    isUpdated = true;
    for (const { packages, isThere } of choices) {
      if (!isThere())
        await step(`installing ${packages.join(" ")}`, () =>
          aptGet(["install", "-y", "--no-install-recommends", ...packages]),
        );
      if (isThere()) break;
    }
  }
}

function extentOf(args) {
  const known = ["--quick", "--all", "--update"];
  const unknown = args.filter((argument) => argument.startsWith("--") && !known.includes(argument));
  if (unknown.length > 0)
    throw new ScriptError(
      `there is no option ${unknown.join(", ")}; there are --quick, --all and --update, and words after them choose tests by name`,
      { exitCode: 2 },
    );
  if (args.includes("--quick")) return "quick";
  return args.includes("--all") ? "all" : "usual";
}

async function runTests(extent, names, folder, isUpdate) {
  const [results, report] = [join(folder, "results.json"), join(folder, "report.jsonl")];
  const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
  // One file at a time: each keeps all cores busy by itself.
  const args = [
    vitest,
    "run",
    "toolchains.test.ts",
    "--no-file-parallelism",
    "--reporter=verbose",
    "--reporter=json",
    `--outputFile.json=${results}`,
  ];
  const env = { ...process.env, ROCMFORGE_TOOLCHAINS: extent, ROCMFORGE_TOOLCHAINS_REPORT: report };
  if (isUpdate) env.ROCMFORGE_TOOLCHAINS_UPDATE = "1";
  const filter = names.length === 0 ? [] : ["-t", names.join(" ")];
  const { exitCode, timedOut } = await runProgram(process.execPath, [...args, ...filter], {
    cwd: ROOT,
    env,
    show: true,
    timeoutMs: GUARD_MS[extent],
  });
  if (timedOut) say(`the tests were ended after ${GUARD_MS[extent] / 60_000} minutes`);
  const counts = existsSync(results)
    ? countResults(JSON.parse(readFileSync(results, "utf8")))
    : { passed: 0, failed: 1, skipped: 0 };
  if (exitCode !== 0 && counts.failed === 0) counts.failed = 1;
  const lines = existsSync(report)
    ? readFileSync(report, "utf8")
        .trim()
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line))
    : [];
  return { counts, lines };
}

function table(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => String(row[column]).length)));
  const isNumber = (cell) => typeof cell === "number";
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          isNumber(cell) ? String(cell).padStart(widths[column]) : String(cell).padEnd(widths[column]),
        )
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function worst(spilling) {
  const [first] = spilling.toSorted((left, right) => right.stackBytes - left.stackBytes);
  return first === undefined ? "none" : `${first.stackBytes} bytes in ${first.kernel}`;
}

/** One row for each toolchain and target, then what was skipped, then the kernels that spill most. */
function summary(lines) {
  const groups = groupBy(lines);
  const rows = [["toolchain", "target", "modules", "of", "compiled now", "failures", "spilling kernels", "worst"]];
  const skipped = [];
  for (const [, group] of groups) {
    if (group[0].skipped !== undefined) {
      skipped.push(`skipped: ${group[0].toolchain}: ${group[0].skipped}`);
      continue;
    }
    const sum = (member) => group.reduce((total, line) => total + line[member], 0);
    const spilling = group.flatMap((line) => line.spilling);
    rows.push([
      group[0].toolchain,
      group[0].target,
      sum("fresh") + sum("kept"),
      sum("possible"),
      sum("fresh"),
      sum("failures"),
      spilling.length,
      worst(spilling),
    ]);
  }
  const spills = worstOfEach(
    lines.flatMap(({ target, spilling = [] }) => spilling.map((spill) => ({ target, ...spill }))),
  );
  const shown = spills
    .slice(0, SHOWN_SPILLS)
    .map(
      ({ target, kernel, stackBytes, spilledBytes, vectorRegisters, module }) =>
        `${target} ${kernel}: ${stackBytes} bytes a thread (${spilledBytes} spilled, ${vectorRegisters} registers): ${module}`,
    );
  return [
    ...(rows.length === 1 ? [] : [table(rows)]),
    ...skipped,
    ...(shown.length === 0
      ? []
      : [`\nmemory of a thread off the chip, by target and kernel, ${shown.length} of ${spills.length}:`, ...shown]),
  ].join("\n");
}

/** The spills of every kernel on every target, the worst first. */
function worstOfEach(spills) {
  const worstFirst = spills.toSorted((left, right) => right.stackBytes - left.stackBytes);
  const kept = new Map();
  for (const spill of worstFirst)
    if (!kept.has(`${spill.target} ${spill.kernel}`)) kept.set(`${spill.target} ${spill.kernel}`, spill);
  return [...kept.values()];
}

const keyOf = ({ toolchain, target = "" }) => `${toolchain} ${target}`;

function groupBy(lines) {
  const groups = new Map();
  for (const line of lines) groups.set(keyOf(line), [...(groups.get(keyOf(line)) ?? []), line]);
  return groups;
}

await main(async (args) => {
  const extent = extentOf(args);
  const names = args.filter((argument) => !argument.startsWith("--"));
  await bootstrap({ persistent: true });
  await installToolchains();
  const folder = mkdtempSync(join(tmpdir(), "rocmforge-toolchains-"));
  const start = performance.now();
  try {
    const { counts, lines } = await runTests(extent, names, folder, args.includes("--update"));
    console.log(`\n${summary(lines)}\n`);
    say(`took ${seconds(start)}`);
    console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
    return counts.failed === 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
