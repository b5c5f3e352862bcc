import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { StopStrings } from "./stop-strings.js";

function run(stops: readonly string[], deltas: readonly string[]): { text: string; stopped: boolean } {
  const matcher = new StopStrings(stops);
  let text = "";
  for (const delta of deltas) {
    const result = matcher.push(delta);
    text += result.text;
    if (result.stopped) return { text, stopped: true };
  }
  return { text: text + matcher.flush(), stopped: false };
}

describe("StopStrings", () => {
  it("ends before a stop string that arrives in deltas", () => {
    expect(run(["END"], ["one E", "N", "D two"])).toEqual({ text: "one ", stopped: true });
  });

  it("gives back what only looked like one", () => {
    expect(run(["END"], ["one E", "N", "Two"])).toEqual({ text: "one ENTwo", stopped: false });
  });

  it("holds back only what could begin a stop string", () => {
    expect(new StopStrings(["\n\n"]).push("line\n")).toEqual({ text: "line", stopped: false });
  });

  it("takes the earliest of several", () => {
    expect(run(["cd", "b"], ["abcd"])).toEqual({ text: "a", stopped: true });
  });

  it("tells which one it was", () => {
    expect(new StopStrings(["x", "yz", "z"]).push("ayz")).toEqual({ text: "a", stopped: true, stop: "yz" });
  });

  it("ends at the one that is complete first, however the text is cut", () => {
    const unit = fc.constantFrom("a", "b");
    const stops = fc.array(fc.string({ unit, minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 30 }), stops, fc.nat(30), (whole, wanted, cut) => {
        expect(run(wanted, [whole.slice(0, cut), whole.slice(cut)])).toEqual(run(wanted, [...whole]));
        const ends = wanted.flatMap((stop) => (whole.includes(stop) ? [whole.indexOf(stop) + stop.length] : []));
        expect(run(wanted, [whole]).stopped).toBe(ends.length > 0);
        const longest = Math.max(
          0,
          ...wanted.filter((stop) => whole.slice(0, Math.min(...ends)).endsWith(stop)).map(({ length }) => length),
        );
        if (ends.length > 0) expect(run(wanted, [whole]).text).toBe(whole.slice(0, Math.min(...ends) - longest));
      }),
    );
  });

  it("follows a long stop string through a text that nearly is it", () => {
    const long = `${"a".repeat(20_000)}b`;
    const matcher = new StopStrings([long]);
    let text = "";
    for (let count = 0; count < 40_000; count++) text += matcher.push("a").text;
    expect(text.length).toBe(20_000);
    expect(matcher.push("b")).toMatchObject({ text: "", stopped: true });
  });

  it("finds what a search of the whole text finds, however it is cut", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 30 });
    const stop = fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 6 }), stop, (deltas, wanted) => {
        const whole = deltas.join("");
        const index = whole.indexOf(wanted);
        const expected =
          index === -1 ? { text: whole, stopped: false } : { text: whole.slice(0, index), stopped: true };
        expect(run([wanted], deltas)).toEqual(expected);
      }),
    );
  });
});
