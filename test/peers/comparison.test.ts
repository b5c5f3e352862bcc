// How `npm run bench:peers` judges and draws what it measured.

import { describe, expect, it } from "vitest";
import { type Comparison, compare, describeTarget } from "../../bench/peers/comparison.js";
import { drawPicture } from "../../bench/peers/picture.js";

const peer = (threads: number, ...samples: number[]) => ({ threads, flashAttention: true, samples });

describe("a comparison", () => {
  it("takes the peer's better thread count by its median, and the ratio of medians", () => {
    const row = compare("Q4_K_M", "decode", [40, 44, 42], [peer(1, 30, 90, 31), peer(2, 35, 34, 36)]);
    expect(row).toMatchObject({ ours: { median: 42 }, peer: { threads: 2, median: 35 }, ratio: 1.2, target: 1.2, met: true });
  });

  it("takes the lower figure as the better one where less is better", () => {
    const row = compare("Q4_0", "first-token", [71], [peer(1, 100), peer(2, 120)]);
    expect(row).toMatchObject({ peer: { threads: 1 }, ratio: 0.71, target: 0.7, met: false });
    expect(describeTarget(row)).toBe("≤ 0.7 × MISSED");
  });

  it("judges memory against the file and bandwidth against the machine, not against the peer", () => {
    const memory = compare("Q8_0", "memory", [1150], [peer(1, 5000)], (bytes) => bytes / 1000);
    expect(memory).toMatchObject({ ratio: 0.23, target: 1.15, met: true });
    expect(compare("Q8_0", "bandwidth", [0.8], [], (share) => share)).toMatchObject({ target: 0.85, met: false });
  });

  it("holds only the types that have a target to one", () => {
    expect(compare("F16", "prefill", [1], [peer(1, 2)])).not.toHaveProperty("met");
    expect(compare("Q8_0", "prefill", [1], [peer(1, 2)])).toMatchObject({ met: false });
  });
});

describe("the picture", () => {
  const rows: Comparison[] = [
    compare("Q4_K_M", "decode", [40], [peer(2, 20)]),
    compare("Q8_0", "decode", [10], [peer(2, 20)]),
    compare("Q8_0", "bandwidth", [0.5], [], (share) => share),
  ];
  const svg = drawPicture(rows, { title: "a < b & c", note: "here" });

  it("draws bars in proportion, the longest at full length", () => {
    const widths = (style: string): number[] => [...svg.matchAll(new RegExp(`<rect class="${style}" x="96" y="[\\d.]+" width="([\\d.]+)"`, "g"))].map(([, width]) => Number(width));
    expect(widths("ours")).toEqual([440, 110, 220]);
    expect(widths("peer")).toEqual([220, 220]);
  });

  it("says every ratio, escapes its words, and follows a dark page", () => {
    expect([...svg.matchAll(/class="ratio"[^>]*>([^<]+)</g)].map(([, ratio]) => ratio)).toEqual(["2.00 ×", "0.50 ×"]);
    expect(svg).toContain("a &#60; b &#38; c");
    expect(svg).toContain("prefers-color-scheme: dark");
  });
});
