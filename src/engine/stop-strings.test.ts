import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { StopStrings } from "./stop-strings.js";

function run(stops: readonly string[], pieces: readonly string[]): { text: string; stopped: boolean } {
  const matcher = new StopStrings(stops);
  let text = "";
  for (const piece of pieces) {
    const result = matcher.push(piece);
    text += result.text;
    if (result.stopped) return { text, stopped: true };
  }
  return { text: text + matcher.flush(), stopped: false };
}

describe("StopStrings", () => {
  it("ends before a stop string that arrives in pieces", () => {
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

  it("finds what a search of the whole text finds, however it is cut", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 30 });
    const stop = fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 6 }), stop, (pieces, wanted) => {
        const whole = pieces.join("");
        const index = whole.indexOf(wanted);
        const expected = index === -1 ? { text: whole, stopped: false } : { text: whole.slice(0, index), stopped: true };
        expect(run([wanted], pieces)).toEqual(expected);
      }),
    );
  });
});
