// `rocmforge bench`: the figures it gives, on the backend that runs everywhere and on the one that is measured.

import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { loadAddon } from "../../src/backends/cpu/addon.js";
import { bytesPerToken } from "../../src/cli/bench/bytes-read.js";
import { prefillMultiplyAdds } from "../../src/cli/bench/multiply-adds.js";
import type { BenchReport } from "../../src/cli/bench/report.js";
import { synthPlan } from "../../src/cli/synth/model-plan.js";
import { type GgufPlan, writeGguf } from "../../src/gguf/writer.js";
import { createBackend, openPlan } from "../../src/internals.js";
import { writeHybridModel } from "../support/hybrid-model.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { rocmforge, SMALL_MODEL } from "./command-line.js";
import { SMALL_SHAPE } from "./small-shape.js";

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

async function bench(...args: readonly string[]): Promise<BenchReport> {
  const finished = await rocmforge(["bench", "--backend", "reference", "--json", ...args]);
  expect(finished.status).toBe(0);
  return JSON.parse(finished.stdout) as BenchReport;
}

describe("the figures", () => {
  it("are there for models with recurrent layers, of one sequence and of several at some depth", async () => {
    const path = folder.file("hybrid.gguf");
    await writeHybridModel(path, { context: 128 });
    for (const [sequences, depth] of [
      ["1", "0"],
      ["3", "40"],
    ]) {
      const report = await bench("-m", path, "-p", "8", "-n", "4", "-s", sequences, "-d", depth, "--starts", "0");
      for (const rate of [report.prefill, report.decode]) expect(rate?.min).toBeGreaterThan(0);
    }
  });

  it("are all there, and agree with each other", async () => {
    const report = await bench("-m", SMALL_MODEL, "-p", "12", "-n", "6", "--repeat", "3", "--starts", "2");
    expect(report).toMatchObject({
      backend: "reference",
      isa: null,
      threads: 1,
      kvCacheType: "f32",
      depth: 0,
      repeats: 3,
      readBandwidth: null,
      dotProductPeak: null,
    });
    const { prefill, decode, timeToFirstToken, timeToFirstTokenMs, peakRssBytes, peakRss, model } = report;
    expect(prefill).toMatchObject({ tokens: 12 });
    expect(decode).toMatchObject({ tokens: 6, bandwidthShare: null });
    for (const rate of [prefill, decode]) {
      expect(rate?.samples).toHaveLength(3);
      expect(rate?.min).toBeGreaterThan(0);
      expect(rate?.tokensPerSecond).toBeGreaterThanOrEqual(rate?.min ?? Number.NaN);
      expect(rate?.max).toBeGreaterThanOrEqual(rate?.tokensPerSecond ?? Number.NaN);
    }
    expect(decode?.bytesPerSecond).toBeCloseTo((decode?.bytesPerToken ?? 0) * (decode?.tokensPerSecond ?? 0), 0);
    expect(decode?.bytesPerToken).toBeLessThan(model.sizeBytes);
    expect(timeToFirstToken?.samples).toHaveLength(2);
    expect(timeToFirstTokenMs).toBe(timeToFirstToken?.median);
    expect(timeToFirstTokenMs).toBeGreaterThan(20);
    // A Node process with a model of three megabytes.
    expect(peakRssBytes).toBeGreaterThan(30e6);
    expect(peakRssBytes).toBeLessThan(1e9);
    expect(peakRss).toMatchObject({ bytes: peakRssBytes });
    const { promptTokens = 0, contextTokens = 0, kvCacheBytes = 0 } = peakRss ?? {};
    expect(promptTokens).toBeGreaterThanOrEqual(12);
    expect(promptTokens).toBeLessThan(18);
    expect(contextTokens).toBeGreaterThan(promptTokens);
    // Both contexts are one block of positions.
    expect(contextTokens).toBeLessThanOrEqual(32 + 2);
    expect(kvCacheBytes / Math.ceil(contextTokens / 32)).toBe(report.kvCacheBytes);
  });

  it("of single kernels need a GPU", async () => {
    const { status, stderr } = await rocmforge([
      "bench",
      "-m",
      SMALL_MODEL,
      "--backend",
      "reference",
      "--profile",
      "-p",
      "4",
    ]);
    expect(status).toBe(2);
    expect(stderr).toMatch(/--profile: expected a GPU backend, whose kernels can be timed, found reference/);
  });

  it("leave out what was not asked for", async () => {
    const reading = await bench("-m", SMALL_MODEL, "-p", "8", "-n", "0", "--repeat", "1", "--starts", "0");
    expect(reading).toMatchObject({
      decode: null,
      timeToFirstTokenMs: null,
      peakRssBytes: null,
      peakRss: null,
      prefill: { tokens: 8 },
    });
    const writing = await bench("-m", SMALL_MODEL, "-p", "0", "-n", "3", "-d", "40", "--repeat", "1", "--starts", "0");
    expect(writing).toMatchObject({ prefill: null, depth: 40, decode: { tokens: 3 } });
  });

  it("are those of all sequences together where several decode", async () => {
    const report = await bench(..."-p 0 -n 3 -d 5 -s 12 --repeat 1 --starts 0 -m".split(" "), SMALL_MODEL);
    expect(report).toMatchObject({ sequences: 12, depth: 5, decode: { tokens: 3, bytesPerToken: null } });
    const { stdout } = await rocmforge([
      ..."bench --backend reference -p 0 -n 3 -s 4 --repeat 1 --starts 0 -m".split(" "),
      SMALL_MODEL,
    ]);
    expect(stdout).toMatch(/^ {2}decode 3 tokens of each of 4 sequences +[\d.]+ tokens\/s/m);
    expect(stdout).not.toMatch(/ per token/);
  });

  it("read as a page of text", async () => {
    const { status, stdout } = await rocmforge([
      "bench",
      "--backend",
      "reference",
      "-m",
      SMALL_MODEL,
      "-p",
      "8",
      "-n",
      "4",
      "--repeat",
      "2",
      "--starts",
      "1",
    ]);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^ {2}prefill 8 tokens +[\d.]+ tokens\/s \([\d.]+ to [\d.]+ in 2 runs\)$/m);
    expect(stdout).toMatch(/^ {2}decode 4 tokens +[\d.]+ tokens\/s/m);
    expect(stdout).toMatch(/^ {2}process start to first token +\d+ ms/m);
    expect(stdout).toMatch(
      /^ {2}peak memory of a process +[\d.]+ MB with a prompt of \d+ tokens: [\d.]+ % of the file and [\d.]+ [kM]B of KV cache$/m,
    );
  });

  it("stand without a first token where the file has no vocabulary", async () => {
    const { metadata, ...rest }: GgufPlan = synthPlan("small", SMALL_SHAPE, { mix: "F16", seed: 1 });
    await writeGguf(folder.file("mute.gguf"), {
      ...rest,
      metadata: metadata.filter(({ key }) => !key.startsWith("tokenizer.")),
    });
    const finished = await rocmforge([
      "bench",
      "--backend",
      "reference",
      "-m",
      folder.file("mute.gguf"),
      "-p",
      "4",
      "-n",
      "2",
      "--repeat",
      "1",
      "--json",
    ]);
    expect(finished.status).toBe(0);
    expect(finished.stderr).toMatch(/^rocmforge: no time to first token: /m);
    expect(JSON.parse(finished.stdout)).toMatchObject({ timeToFirstTokenMs: null, decode: { tokens: 2 } });
  });
});

const addon = loadAddon();
const why = "reason" in addon ? ` (skipped: ${addon.reason})` : "";

describe.skipIf("reason" in addon)(`on the processor${why}`, () => {
  afterEach(() => void vi.unstubAllEnvs());

  const benchCpu = async (isa: string): Promise<BenchReport> => {
    vi.stubEnv("ROCMFORGE_CPU_ISA", isa);
    const finished = await rocmforge([
      "bench",
      "--backend",
      "cpu",
      "--threads",
      "2",
      "--json",
      "-m",
      SMALL_MODEL,
      "-p",
      "16",
      "-n",
      "8",
      "--repeat",
      "2",
      "--starts",
      "0",
    ]);
    expect(finished.status).toBe(0);
    return JSON.parse(finished.stdout) as BenchReport;
  };

  it("say what computed, and which share of the measured bandwidth writing reaches", async () => {
    const { backend, isa, threads, kvCacheType, decode, readBandwidth } = await benchCpu("");
    expect({ backend, threads, kvCacheType }).toEqual({ backend: "cpu", threads: 2, kvCacheType: "f16" });
    expect("addon" in addon ? addon.addon.isas : []).toContain(isa);
    expect(readBandwidth?.sizeBytes).toBeGreaterThanOrEqual(2 ** 30);
    // No memory is slower than a disk, and none is as fast as a petabyte in a second.
    expect(readBandwidth?.bytesPerSecond).toBeGreaterThan(100e6);
    expect(readBandwidth?.bytesPerSecond).toBeLessThan(1e15);
    expect(decode?.bandwidthShare).toBe((decode?.bytesPerSecond ?? 0) / (readBandwidth?.bytesPerSecond ?? 0));
    expect(decode?.bandwidthShare).toBeGreaterThan(0);
  });

  it("say which share of the peak of dot products prefill reaches, if the instruction set has such an instruction", async () => {
    const { isa, prefill, dotProductPeak } = await benchCpu("");
    if (isa === "avx2" || isa === "portable") return expect(dotProductPeak).toBeNull();
    // More than one multiply-add in a nanosecond, and fewer than a core of any kind can do with two threads.
    expect(dotProductPeak?.multiplyAddsPerSecond).toBeGreaterThan(1e9);
    expect(dotProductPeak?.multiplyAddsPerSecond).toBeLessThan(1e13);
    const { multiplyAddsPerSecond = null, dotProductShare = null } = prefill ?? {};
    expect(dotProductShare).toBe((multiplyAddsPerSecond ?? 0) / (dotProductPeak?.multiplyAddsPerSecond ?? 0));
    expect(dotProductShare).toBeGreaterThan(0);
    expect(dotProductShare).toBeLessThan(1);
  });

  it("name the instruction set that the environment asks for", async () => {
    const report = await benchCpu("portable");
    expect(report).toMatchObject({ backend: "cpu", isa: "portable", dotProductPeak: null });
    expect(report.prefill).toMatchObject({ dotProductShare: null });
  });
});

describe("bytes read for a token", () => {
  it.each([true, false])(
    "count a table that gives the logits too (tied: %s) whole, any other by the row",
    async (tied) => {
      const plan = synthPlan("small", { ...SMALL_SHAPE, tied }, { mix: "F32", seed: 1 });
      const path = folder.file(`tied-${tied}.gguf`);
      await writeGguf(path, plan);
      await using backend = await createBackend("reference");
      const opened = await openPlan(path, backend, { contextTokens: 64 });
      await using _ = opened.loader;
      const { weightBytes, kvBytes } = bytesPerToken(opened.plan, { decodeTokens: 9, depth: 10 });
      const elements = plan.tensors.reduce((sum, { shape: [inputs, outputs = 1] }) => sum + inputs * outputs, 0);
      expect(weightBytes).toBe(4 * (tied ? elements : elements - 1024 * 256 + 256));
      // Two layers of keys and values of two heads of 64, as f32, at 15 positions on average.
      expect(kvBytes).toBe(2 * 2 * 2 * 64 * 4 * 15);
    },
  );
});

describe("multiply-adds of a prefill", () => {
  it.each(["Q8_0", "F32"] as const)("count quantized matrices once per token that passes them, as %s", async (mix) => {
    const written = synthPlan("small", { ...SMALL_SHAPE, tied: false }, { mix, seed: 1 });
    const path = folder.file(`multiply-adds-${mix}.gguf`);
    await writeGguf(path, written);
    await using backend = await createBackend("reference");
    const { plan, loader } = await openPlan(path, backend, { contextTokens: 64 });
    await using _ = loader;
    const elementsOf = (pattern: RegExp): number =>
      written.tensors
        .filter(({ name }) => pattern.test(name))
        .reduce((sum, { shape: [inputs, outputs = 1] }) => sum + inputs * outputs, 0);
    // The last of two layers goes on with the output row alone after attention.
    const perToken =
      elementsOf(/^blk\.0\.(attn|ffn)_(q|k|v|output|gate|up|down)\./) + elementsOf(/^blk\.1\.attn_[qkv]\./);
    const once = elementsOf(/^blk\.1\.(attn|ffn)_(output|gate|up|down)\./) + elementsOf(/^output\./);
    expect(once).toBeGreaterThan(0);
    expect(prefillMultiplyAdds(plan, 10)).toBe(mix === "F32" ? 0 : 10 * perToken + once);
  });
});

describe("rejects", () => {
  it.each([
    [["-p", "0", "-n", "0"], /--tokens: expected something to measure/],
    [["--repeat", "0"], /--repeat: expected a whole number from 1 to 1000/],
    [["--ctx", "64"], /unknown option --ctx/],
  ])("a wrong command line: %j", async (args, message) => {
    const { status, stderr } = await rocmforge(["bench", "--backend", "reference", ...args]);
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
  });
});
