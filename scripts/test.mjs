// `npm test` and, with --full, `npm run test:full`: install, build, lint, formatting, typecheck, tests, why some were
// skipped, and a closing count. Arguments (`npm test -- src/gguf`) are passed to vitest, and lint and typecheck are
// omitted: the quick run while working. The exit status is 0 only if everything that ran has passed.

import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bootstrap, compilerPath, ROOT } from "./bootstrap.mjs";
import { formatters } from "./format.mjs";
import { install } from "./install.mjs";
import { PROGRESS_VARIABLE } from "./progress-reporter.mjs";
import { skipReasons } from "./skip-reasons.mjs";
import { countResults } from "./test-count.mjs";
import { main, runProgram, say, ScriptError, seconds, step } from "./tool.mjs";

/**
 * A test that loops without yielding escapes vitest's own timeout. The run is ended if no test has begun or ended for
 * this time, which is well above what vitest allows one test: a slow machine may take its time.
 */
const STALL_MS = 10 * 60_000;
const STALL_FULL_MS = 45 * 60_000;
const SHOWN_RUNNING = 5;

/** Installs packages that only tests need: without them their tests are skipped, so a failed install is a warning. */
async function installForTests(folder, what) {
  if (!existsSync(join(ROOT, folder, "package.json"))) return;
  try {
    await install(join(ROOT, folder), what);
  } catch (error) {
    if (!(error instanceof ScriptError)) throw error;
    say(`warning: ${error.message}; the tests that need ${folder} will be skipped`);
  }
}

/** All checks that are not tests, as command lines for Node. */
async function checks() {
  return [
    { what: "linting (oxlint)", args: [join(ROOT, "node_modules", "oxlint", "bin", "oxlint"), "--deny-warnings"] },
    ...(await formatters({ check: true })),
    ...["tsconfig.json", "page/tsconfig.json"].map((project) => ({
      what: `typechecking (tsc -p ${project})`,
      args: [compilerPath(), "-p", project],
    })),
  ];
}

/** Runs the checks at once, because typechecking keeps one core busy; prints the output of those that fail, counts them. */
async function runChecks() {
  const results = await step("linting, formatting and typechecking (oxlint, oxfmt, clang-format, tsc)", async () =>
    Promise.all(
      (await checks()).map(async ({ what, args }) => ({
        what,
        ...(await runProgram(process.execPath, args, { cwd: ROOT })),
      })),
    ),
  );
  const failed = results.filter(({ exitCode }) => exitCode !== 0);
  for (const { what, output } of failed) {
    process.stderr.write(`${output.trimEnd()}\n`);
    say(`${what} failed: what it found is above`);
  }
  return failed.length;
}

function readProgress(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return { running: [] };
  }
}

/** A value that changes whenever a test has begun or ended. */
function progressMark(path) {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.mtimeNs ?? 0n;
}

/** Prints why tests were skipped, unless a name pattern excluded them. */
function tellSkips(progress, args) {
  if (args.some((argument) => /^(?:-t|--testNamePattern)\b/.test(argument))) return;
  for (const line of skipReasons(progress.skipped ?? [])) say(line);
}

async function runVitest(args, full) {
  const folder = mkdtempSync(join(tmpdir(), "rocmforge-test-"));
  const reportPath = join(folder, "report.json");
  const progressPath = join(folder, "progress.json");
  const start = performance.now();
  say(`running the tests (vitest${full ? ", long ones too" : ""})`);
  try {
    const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
    const reporters = [
      "--reporter=default",
      "--reporter=json",
      `--outputFile.json=${reportPath}`,
      `--reporter=${join(ROOT, "scripts", "progress-reporter.mjs")}`,
    ];
    const env = { ...process.env, [PROGRESS_VARIABLE]: progressPath, ...(full ? { ROCMFORGE_TEST_FULL: "1" } : {}) };
    const afterMs = full ? STALL_FULL_MS : STALL_MS;
    const stall = { afterMs, progress: () => progressMark(progressPath) };
    const { exitCode, timedOut } = await runProgram(process.execPath, [vitest, "run", ...reporters, ...args], {
      cwd: ROOT,
      env,
      show: true,
      stall,
    });
    const progress = readProgress(progressPath);
    if (timedOut) {
      say(
        `the tests were ended after ${seconds(start)}, because none has begun or ended for ${afterMs / 1000} s; still running:`,
      );
      for (const name of progress.running.slice(0, SHOWN_RUNNING)) say(`  ${name}`);
    } else say(`tests took ${seconds(start)}`);
    tellSkips(progress, args);
    const counts = existsSync(reportPath)
      ? countResults(JSON.parse(readFileSync(reportPath, "utf8")))
      : { passed: 0, failed: 1, skipped: 0 };
    // An error outside any test fails vitest without a failed test.
    if (exitCode !== 0 && counts.failed === 0) counts.failed = 1;
    return counts;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

await main(async (args) => {
  const full = args.includes("--full");
  const vitestArgs = args.filter((argument) => argument !== "--full");
  const { addon } = await bootstrap({ persistent: true });
  await installForTests(join("test", "peers", "vocab"), "test vocabularies");
  if (full) await installForTests(join("test", "grammar", "corpus"), "schemas to test grammars with");
  if (full) await installForTests(join("bench", "peers"), "peers to compare with");
  if (full) await installForTests(join("test", "server", "clients"), "clients to try the server with");
  if (full) await installForTests("site", "what builds the site");
  if (full) await installForTests(join("test", "node-versions"), "versions of Node to try the package with");

  // Without a compiler the tests of the addon are skipped; sources that do not compile are a failure.
  let failedChecks = addon === "broken sources" ? 1 : 0;
  if (vitestArgs.length === 0) failedChecks += await runChecks();
  const { passed, failed, skipped } = await runVitest(vitestArgs, full);
  const allFailed = failed + failedChecks;
  console.log(`${passed} passed, ${allFailed} failed, ${skipped} skipped`);
  return allFailed === 0 ? 0 : 1;
});
