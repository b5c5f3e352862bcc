// `npm test` and, with --full, `npm run test:full`: install, build, lint, typecheck, tests, one closing count.
// With arguments (`npm test -- src/gguf`) they go to vitest, and lint and typecheck are left out: that is the
// quick run while working. The exit status is 0 only when everything that ran has passed.

import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bootstrap, compilerPath, ROOT } from "./bootstrap.mjs";
import { install } from "./install.mjs";
import { countResults } from "./test-count.mjs";
import { main, runProgram, say, ScriptError, seconds, step } from "./tool.mjs";

/** A test that loops without yielding escapes vitest's own timeout; this ends it. */
const GUARD_MS = 20 * 60_000;
const GUARD_FULL_MS = 85 * 60_000;

/** Packages only tests need: without them their tests skip, so a failed install is a warning. */
async function installForTests(folder, what) {
  if (!existsSync(join(ROOT, folder, "package.json"))) return;
  try {
    await install(join(ROOT, folder), what);
  } catch (error) {
    if (!(error instanceof ScriptError)) throw error;
    say(`warning: ${error.message}; the tests that need ${folder} will be skipped`);
  }
}

/** Runs one check that is not a test; false when it failed, with all it said. */
async function check(what, args) {
  const { exitCode, output } = await step(what, () => runProgram(process.execPath, args, { cwd: ROOT }));
  if (exitCode === 0) return true;
  process.stderr.write(`${output.trimEnd()}\n`);
  say(`${what} failed: what it found is above`);
  return false;
}

async function runVitest(args, full) {
  const folder = mkdtempSync(join(tmpdir(), "rocmforge-test-"));
  const reportPath = join(folder, "report.json");
  const start = performance.now();
  say(`running the tests (vitest${full ? ", long ones too" : ""})`);
  try {
    const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
    const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${reportPath}`];
    const env = full ? { ...process.env, ROCMFORGE_TEST_FULL: "1" } : process.env;
    const timeoutMs = full ? GUARD_FULL_MS : GUARD_MS;
    const { exitCode, timedOut } = await runProgram(process.execPath, [vitest, "run", ...reporters, ...args], { cwd: ROOT, env, show: true, timeoutMs });
    if (timedOut) say(`the tests were ended after ${seconds(start)}: one of them hangs`);
    else say(`tests took ${seconds(start)}`);
    const counts = existsSync(reportPath) ? countResults(JSON.parse(readFileSync(reportPath, "utf8"))) : { passed: 0, failed: 1, skipped: 0 };
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
  await installForTests(join("test", "vocab"), "test vocabularies");
  if (full) await installForTests(join("test", "schemas"), "schemas to test grammars with");
  if (full) await installForTests(join("bench", "peers"), "peers to compare with");
  if (full) await installForTests(join("test", "clients"), "clients to try the server with");

  // Without a compiler the tests of the addon skip; sources that do not compile are a failure.
  let failedChecks = addon === "broken sources" ? 1 : 0;
  if (vitestArgs.length === 0) {
    const oxlint = join(ROOT, "node_modules", "oxlint", "bin", "oxlint");
    if (!(await check("linting (oxlint)", [oxlint, "--deny-warnings"]))) failedChecks++;
    if (!(await check("typechecking (tsc -p tsconfig.json)", [compilerPath(), "-p", "tsconfig.json"]))) failedChecks++;
  }
  const { passed, failed, skipped } = await runVitest(vitestArgs, full);
  const allFailed = failed + failedChecks;
  console.log(`${passed} passed, ${allFailed} failed, ${skipped} skipped`);
  return allFailed === 0 ? 0 : 1;
});
