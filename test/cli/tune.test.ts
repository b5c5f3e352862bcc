// `rocmforge tune` on the processor: what it prints and keeps, and that later commands use it.

import { readFileSync } from "node:fs";
import { afterEach, describe, expect, it, vi } from "vitest";
import { loadAddon } from "../../src/backends/cpu/addon.js";
import type { BenchReport } from "../../src/cli/bench/report.js";
import type { TunedModel } from "../../src/cli/tune/report.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { rocmforge, SMALL_MODEL } from "./command-line.js";

const addon = loadAddon();
const why = "reason" in addon ? ` (skipped: ${addon.reason})` : "";

/** Many times what it takes, because a busy machine may need long to complete it. */
const BUDGET_SECONDS = 100;

afterEach(() => void vi.unstubAllEnvs());

describe.skipIf("reason" in addon)(`tune${why}`, () => {
  it("keeps threads and prefill chunks, which bench then uses and reports", async () => {
    using folder = new TemporaryFolder();
    vi.stubEnv("ROCMFORGE_KERNEL_CACHE", folder.path);
    const line = ["tune", "--backend", "cpu", "-m", SMALL_MODEL, "--json", "--budget", String(BUDGET_SECONDS)];
    const tuned = await rocmforge(line);
    expect(tuned.status).toBe(0);
    const report = JSON.parse(tuned.stdout) as TunedModel;
    expect(report).toMatchObject({ backend: "cpu", isComplete: true, rejected: 0 });
    expect(report.choices.map(({ kernel }) => kernel)).toEqual(["cpu threads", "cpu prefill"]);
    expect(report.decode.before).toBeGreaterThan(0);
    expect(report.seconds).toBeLessThan(BUDGET_SECONDS);
    expect(readFileSync(report.keptIn!, "utf8")).toContain('"threads"');
    const [{ before, after }] = report.choices;

    const bench = ["bench", "--backend", "cpu", "-m", SMALL_MODEL, ..."-p 8 -n 4 --repeat 1 --starts 0".split(" ")];
    const measured = JSON.parse((await rocmforge([...bench, "--json"])).stdout) as BenchReport;
    expect(measured.threads).toBe(after["threads"]);
    expect(measured.tuned?.choices).toEqual(report.choices);
    const shown = await rocmforge(bench);
    expect(shown.stdout).toMatch(/^ {2}tuned +2 choices, \d other than the default, gained -?[\d.]+ % of their time/m);

    // Settings of the user are the user's: neither the default, with which the record is found, nor the winner, which is 1 on
    // a busy machine.
    const threads = [1, 2, 3].find((count) => count !== before["threads"] && count !== after["threads"])!;
    const own = JSON.parse((await rocmforge([...bench, "--json", "--threads", `${threads}`])).stdout) as BenchReport;
    expect(own.threads).toBe(threads);
    expect(own.tuned?.choices).toEqual([]);
  });

  it("prints a table, without threads if the user has chosen them", async () => {
    using folder = new TemporaryFolder();
    vi.stubEnv("ROCMFORGE_KERNEL_CACHE", folder.path);
    const { status, stdout } = await rocmforge(["tune", "--backend", "cpu", "-m", SMALL_MODEL, "--threads", "1"]);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^ {2}kernel +shape +parameters +µs before +µs after +gain$/m);
    expect(stdout).toMatch(/^ {2}cpu prefill +a prompt token +/m);
    expect(stdout).not.toMatch(/cpu threads/);
    expect(stdout).toMatch(/^1 choice from \d candidates? in \d+ s$/m);
    expect(stdout).toContain(`kept in ${folder.path}`);
  });
});

it("rejects a backend that has nothing to tune", async () => {
  const { status, stderr } = await rocmforge(["tune", "--backend", "reference", "-m", SMALL_MODEL]);
  expect(status).toBe(2);
  expect(stderr).toMatch(
    /\[tune\] --backend: expected one with kernels that can be tuned: hip, cuda, cpu, found reference/,
  );
});
