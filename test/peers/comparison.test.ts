// How `npm run bench:peers` judges and draws its results.

import { describe, expect, it } from "vitest";
import {
  type Comparison,
  compare,
  describeTarget,
  describeVerdict,
  expectedTargets,
  judgeAll,
  memoryJudge,
} from "../../bench/peers/comparison.js";
import { type Engines, type PeerSetup, readLlamaBench, type Workload } from "../../bench/peers/engines.js";
import { drawPicture } from "../../bench/peers/picture.js";
import { describeComparisons } from "../../bench/peers/results.js";
import { runRounds } from "../../bench/peers/rounds.js";
import { parseSettings } from "../../bench/peers/settings.js";
import type { BenchReport } from "../../src/cli/bench/report.js";

const peer = (threads: number, ...samples: number[]) => ({ threads, flashAttention: true, samples });

describe("a comparison", () => {
  it("takes the peer's better thread count by its median, and the ratio of medians", () => {
    const row = compare("Q4_K_M", "decode", [40, 44, 42], [peer(1, 30, 90, 31), peer(2, 35, 34, 36)]);
    expect(row).toMatchObject({
      ours: { median: 42 },
      peer: { threads: 2, median: 35 },
      ratio: 1.2,
      target: 1.2,
      met: true,
    });
  });

  it("treats the lower figure as the better one if less is better", () => {
    const row = compare("Q4_0", "first-token", [71], [peer(1, 100), peer(2, 120)]);
    expect(row).toMatchObject({ peer: { threads: 1 }, ratio: 0.71, target: 0.7, met: false });
    expect(describeTarget(row)).toBe("≤ 0.7 × MISSED");
  });

  it("judges memory against the file and bandwidth against the machine, not against the peer", () => {
    const judge = memoryJudge(1000, 100);
    const memory = compare("Q8_0", "memory", [1250], [peer(1, 5000)], { judge });
    expect(memory).toMatchObject({ ratio: 0.25, target: 1.15, judged: 1.15, met: true });
    expect(describeTarget(memory)).toBe("≤ 1.15 × file + KV (1.15)");
    const larger = compare("Q8_0", "memory", [1300], [peer(1, 5000)], { judge });
    expect(describeTarget(larger)).toBe("≤ 1.15 × file + KV (1.20) MISSED");
    expect(compare("Q8_0", "bandwidth", [0.8], [], { judge: (share) => share })).toMatchObject({
      target: 0.85,
      met: false,
    });
  });

  it("has llama.cpp's own benchmark beside it, without a target", () => {
    const row = compare("Q8_0", "decode", [30], [peer(1, 20)], { llamaBench: { threads: 2, samples: [24, 40, 25] } });
    expect(row).toMatchObject({
      ratio: 1.5,
      judged: 1.5,
      met: true,
      llamaBench: { threads: 2, median: 25, ratio: 1.2 },
    });
    expect(describeComparisons([row])).toMatch(/llama-bench 25\.0, 1\.20 ×$/m);
    expect(
      compare("Q8_0", "decode", [30], [peer(1, 20)], { llamaBench: { threads: 2, samples: [] } }),
    ).not.toHaveProperty("llamaBench");
  });

  it("has no verdict without a figure of the peer", () => {
    const row = compare("Q8_0", "decode", [30], [peer(1)]);
    expect(row).not.toHaveProperty("met");
    expect(row).not.toHaveProperty("peer");
  });

  it("holds only the types that have a target to one", () => {
    expect(compare("F16", "prefill", [1], [peer(1, 2)])).not.toHaveProperty("met");
    expect(compare("Q8_0", "prefill", [1], [peer(1, 2)])).toMatchObject({ met: false });
  });
});

describe("the verdict", () => {
  const types = ["Q8_0", "F16"];
  const rows = (met: boolean): Comparison[] => [
    compare("Q8_0", "decode", [met ? 2 : 1], [peer(1, 1)]),
    compare("Q8_0", "prefill", [2], [peer(1, 1)]),
    compare("Q8_0", "first-token", [1], [peer(1, 2)]),
    compare("Q8_0", "memory", [1], [], { judge: () => 1 }),
    compare("F16", "decode", [2], [peer(1, 1)]),
    compare("F16", "first-token", [1], [peer(1, 2)]),
    compare("F16", "memory", [1], [], { judge: () => 1 }),
  ];
  const bandwidth = compare("Q8_0", "bandwidth", [0.9], [], { judge: (share) => share });

  it("reports all targets as met only if every one was judged", () => {
    const expected = expectedTargets(types, []);
    expect(expected).toHaveLength(8);
    expect(describeVerdict(judgeAll(expected, [...rows(true), bandwidth]), types)).toBe(
      "every target is met (Q8_0, F16)",
    );
    expect(describeVerdict(judgeAll(expected, rows(true)), types)).toBe("not measured: bandwidth Q8_0");
    expect(describeVerdict(judgeAll(expected, []), types)).toMatch(/^not measured: decode Q8_0, .*, memory F16$/);
  });

  it("names what is missed and what is not measured apart", () => {
    const verdict = judgeAll(expectedTargets(types, ["Q8_0"]), [...rows(false), bandwidth]);
    expect(describeVerdict(verdict, types)).toBe("missed: decode Q8_0\nnot measured: decode-at-depth Q8_0");
  });
});

describe("the options", () => {
  it("take names in any case, once each, and measure depth on the two usual types", () => {
    expect(
      parseSettings(["--types", "q8_0, f16,Q8_0", "--peer-threads", "2,1,2", "--shape", "TinyLlama"]),
    ).toMatchObject({
      shape: "tinyllama",
      types: ["Q8_0", "F16"],
      depthTypes: ["Q8_0"],
      peerThreads: [2, 1],
      depth: 4096,
      runs: 5,
    });
    expect(parseSettings(["--", "--depth-types", "f16"])).toMatchObject({ depthTypes: ["F16"] });
    expect(parseSettings([])).toMatchObject({ depthTypes: ["Q4_K_M", "Q8_0"] });
  });

  it("keep results of few runs out of the repository", () => {
    const folderOf = (...args: string[]): string => parseSettings(args).resultFolder;
    expect(folderOf()).toMatch(/results$/);
    for (const args of [["--runs", "4"], ["--quick"], ["--quick", "--runs", "5"]])
      expect(folderOf(...args)).toMatch(/\.cache.bench$/);
  });

  it.each([
    [["--types", ""], /--types: expected at least one, .*found ""/],
    [["--types", " , "], /--types: expected at least one/],
    [["--types", "Q4_KM"], /--types: .*did you mean Q4_K_M\?/],
    [["--types", "Q8_0", "--depth-types", "Q4_0"], /--depth-types: expected one of Q8_0, found "Q4_0"/],
    [["--peer-threads", "1,two"], /--peer-threads: expected a whole number from 1 to 1000, found "two"/],
    [["--peer-threads", "0"], /--peer-threads: expected a whole number from 1/],
    [["--llama-bench", "no/such/program"], /--llama-bench: expected a program that can be run/],
    [["--shape", "llama3"], /--shape: expected one of llama3-1b/],
    [["Q8_0"], /expected options alone, found "Q8_0"/],
  ])("refuse %j", (args, message) => {
    expect(() => parseSettings(args)).toThrow(message);
  });
});

describe("rounds", () => {
  const work: Workload = { modelPath: "no-such-model", promptTokens: 8, decodeTokens: 4, depth: 0 };
  const settings = {
    runs: 3,
    prompt: 8,
    tokens: 4,
    depth: 0,
    depthTypes: [],
    peerThreads: [1, 2],
    triesAttention: true,
  };
  const nameOf = ({ threads, flashAttention }: PeerSetup): string => `${flashAttention ? "flash" : "plain"} ${threads}`;

  /** Speeds by setup; every run is recorded. */
  function fakeEngines(
    decode: Readonly<Record<string, number>>,
    prefill: Readonly<Record<string, number>>,
  ): { engines: Engines; log: string[] } {
    const log: string[] = [];
    const unused = (): never => {
      throw new Error("not part of a round");
    };
    const engines: Engines = {
      ours: async () => {
        log.push("ours");
        return {} as BenchReport;
      },
      peer: async (_work, setup) => {
        log.push(nameOf(setup));
        return { decode: decode[nameOf(setup)], prefill: prefill[nameOf(setup)] };
      },
      llamaBench: async (_work, threads) => {
        log.push(`llama-bench ${threads}`);
        return { decode: 7 };
      },
      startOurs: unused,
      startPeer: unused,
      readOurs: unused,
      readPeer: unused,
      kvCacheBytes: unused,
    };
    return { engines, log };
  }

  it("run everything in turn, with the peer's other attention setting at its fastest thread count", async () => {
    const { engines, log } = fakeEngines(
      { "flash 1": 5, "flash 2": 6, "plain 2": 4 },
      { "flash 1": 50, "flash 2": 60, "plain 2": 90 },
    );
    const rounds = await runRounds("test", work, { engines, settings, say: () => {} });
    expect(log.slice(0, 6)).toEqual(["flash 2", "ours", "flash 1", "flash 2", "llama-bench 2", "plain 2"]);
    expect(log.slice(6, 11)).toEqual(["flash 1", "flash 2", "llama-bench 2", "plain 2", "ours"]);
    expect(rounds.ours).toHaveLength(3);
    expect(rounds.peerSamples("decode").map(({ samples }) => samples.length)).toEqual([3, 3, 3]);
    expect(compare("Q8_0", "decode", [9], rounds.peerSamples("decode"), rounds.beside("decode"))).toMatchObject({
      peer: { threads: 2, flashAttention: true, median: 6 },
      llamaBench: { threads: 2, median: 7 },
    });
    expect(compare("Q8_0", "prefill", [9], rounds.peerSamples("prefill"))).toMatchObject({
      peer: { threads: 2, flashAttention: false, median: 90 },
    });
  });

  it("try it at two thread counts if one was better for decode and the other for prefill", async () => {
    const { engines } = fakeEngines(
      { "flash 1": 6, "flash 2": 5, "plain 1": 1, "plain 2": 1 },
      { "flash 1": 50, "flash 2": 60, "plain 1": 1, "plain 2": 1 },
    );
    const { setups } = await runRounds("test", work, { engines, settings, say: () => {} });
    expect(setups.map(nameOf)).toEqual(["flash 1", "flash 2", "plain 1", "plain 2"]);
  });

  it("have one way alone when they are to be quick", async () => {
    const { engines, log } = fakeEngines({ "flash 1": 6, "flash 2": 5 }, {});
    await runRounds("test", work, {
      engines: { ...engines, llamaBench: undefined },
      settings: { ...settings, runs: 1, triesAttention: false },
      say: () => {},
    });
    expect(log).toEqual(["ours", "flash 1", "flash 2"]);
  });
});

it("reads llama-bench's speeds from the tests it names", () => {
  const tests = [
    { n_prompt: 512, n_gen: 0, avg_ts: 80.5, samples_ts: [80.5] },
    { n_prompt: 0, n_gen: 64, avg_ts: 20.25, samples_ts: [20.25] },
  ];
  expect(readLlamaBench(JSON.stringify(tests))).toEqual({ prefill: 80.5, decode: 20.25 });
  expect(readLlamaBench(JSON.stringify(tests.slice(1)))).toEqual({ decode: 20.25 });
});

describe("the picture", () => {
  const rows: Comparison[] = [
    compare("Q4_K_M", "decode", [40], [peer(2, 20)]),
    compare("Q8_0", "decode", [10], [peer(2, 20)]),
    compare("Q8_0", "bandwidth", [0.5], [], { judge: (share) => share }),
    compare("Q8_0", "prefill", [10], []),
  ];
  const svg = drawPicture(rows, { title: "a < b & c", note: "here", prompt: 64, depth: 0 });

  it("draws bars in proportion, the longest at full length", () => {
    const widths = (style: string): number[] =>
      [...svg.matchAll(new RegExp(`<rect class="${style}" x="96" y="[\\d.]+" width="([\\d.]+)"`, "g"))].map(
        ([, width]) => Number(width),
      );
    expect(widths("ours")).toEqual([440, 110, 440, 220]);
    expect(widths("peer")).toEqual([220, 220]);
  });

  it("says every ratio, escapes its words, and follows a dark page", () => {
    expect([...svg.matchAll(/class="ratio"[^>]*>([^<]+)</g)].map(([, ratio]) => ratio)).toEqual(["2.00 ×", "0.50 ×"]);
    expect(svg).toContain("a &#60; b &#38; c");
    expect(svg).toContain("prefers-color-scheme: dark");
  });

  it("says how long the prompt was", () => {
    expect(svg).toContain("Reading a prompt of 64 tokens, tokens per second");
  });
});
