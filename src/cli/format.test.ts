import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  countOf,
  formatBar,
  formatBytes,
  formatCount,
  formatDuration,
  formatRanges,
  formatTable,
  printable,
  quotedForTerminal,
  wordsOf,
} from "./format.js";

describe("format", () => {
  it.each([
    [0, "0 bytes"],
    [1, "1 byte"],
    [999, "999 bytes"],
    [1000, "1.00 kB"],
    [9994, "9.99 kB"],
    [9995, "10.0 kB"],
    [99_949, "99.9 kB"],
    [99_950, "100 kB"],
    [999_499, "999 kB"],
    [999_500, "1.00 MB"],
    [6_684_448, "6.68 MB"],
    [2 ** 53, "9.01 PB"],
  ])("%d bytes are %s", (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });

  it("groups digits and counts nouns", () => {
    expect([0, 999, 1000, 128_256, 1_234_567].map(formatCount)).toEqual(["0", "999", "1,000", "128,256", "1,234,567"]);
    expect([countOf(1, "token"), countOf(2000, "token")]).toEqual(["1 token", "2,000 tokens"]);
  });

  it("formats durations", () => {
    expect([0, 9_949, 9_950, 59_499, 59_500, 119_600].map(formatDuration)).toEqual([
      "0.0 s",
      "9.9 s",
      "10 s",
      "59 s",
      "1 min 0 s",
      "2 min 0 s",
    ]);
  });

  it("aligns columns and leaves no spaces at line ends", () => {
    expect(
      formatTable(
        [
          ["a", "1", ""],
          ["bcd", "22", "x"],
        ],
        ["left", "right"],
      ),
    ).toBe("  a     1\n  bcd  22  x");
  });

  it("shows something of anything", () => {
    expect([0, 1e-9, 0.5, 1].map((share) => formatBar(share, 4))).toEqual(["", "█", "██", "████"]);
  });

  it("joins neighbours into ranges", () => {
    expect(formatRanges([0, 1, 2, 5, 7, 8])).toBe("0-2, 5, 7-8");
    expect(formatRanges([])).toBe("");
  });

  it("lets nothing through that a terminal would obey", () => {
    const character = fc.integer({ min: 0, max: 0x206f }).map((code) => String.fromCharCode(code));
    fc.assert(
      fc.property(fc.string({ unit: character }), (text) => {
        expect(printable(text)).not.toMatch(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/u);
      }),
    );
    expect(printable("a\u001b[2J\u009b\t\n\u202e")).toBe(String.raw`a\u{1b}[2J\u{9b}\t\n\u{202e}`);
    expect(printable("a\nb\u0007", "line-breaks")).toBe(`a\nb${String.raw`\u{7}`}`);
  });

  it("cuts long text and says how long it was", () => {
    expect(quotedForTerminal("abc", 3)).toBe('"abc"');
    expect(quotedForTerminal("abcd", 3)).toBe('"abc…" (4 characters)');
  });

  it("splits names into words", () => {
    expect(wordsOf("kvHeadCount")).toBe("kv head count");
  });
});
