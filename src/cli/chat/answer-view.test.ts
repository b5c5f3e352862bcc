import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AnswerLook, type AnswerDelta, AnswerView } from "./answer-view.js";

const PIPE: AnswerLook = { reasoning: "hidden", isTerminal: false };
const DIMMED: AnswerLook = { reasoning: "dimmed", isTerminal: true };

async function shown(
  look: AnswerLook,
  ...deltas: readonly (string | readonly [AnswerDelta["kind"], string])[]
): Promise<string> {
  const written: string[] = [];
  const view = new AnswerView(look, async (text) => void written.push(text));
  for (const delta of deltas)
    await view.push(typeof delta === "string" ? { kind: "text", text: delta } : { kind: delta[0], text: delta[1] });
  await view.end();
  return written.join("");
}

describe("an answer as it is shown", () => {
  it("has one line break at its end and no blank space around it", async () => {
    expect(await shown(PIPE, "\n ", " one", "\n", "\n", "two ", "\n\n")).toBe("one\n\ntwo\n");
  });

  it("is a line, also when there is nothing", async () => {
    expect(await shown(PIPE)).toBe("\n");
  });

  it("is the same text however it comes", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.string({ unit: fc.constantFrom("a", "b", " ", "\n", "\t") })), async (deltas) => {
        expect(await shown(PIPE, ...deltas)).toBe(`${deltas.join("").trim()}\n`);
      }),
    );
  });

  it("sets reasoning apart", async () => {
    const deltas = [
      ["reasoning", "\nhm"],
      ["reasoning", "m\n"],
      ["text", "\n\nyes"],
    ] as const;
    expect(await shown(DIMMED, ...deltas)).toBe("\u001b[2mhmm\u001b[22m\n\nyes\n");
    expect(await shown({ ...DIMMED, reasoning: "marked" }, ...deltas)).toBe("[thinking]\nhmm\n[answer]\n\nyes\n");
    expect(await shown(PIPE, ...deltas)).toBe("yes\n");
  });

  it("leaves no look behind when it is stopped", async () => {
    expect(await shown(DIMMED, ["reasoning", "hm"])).toBe("\u001b[2mhm\u001b[22m\n");
  });

  it("gives a terminal no orders, and a pipe what was written", async () => {
    const text = "a\tb\u001b[2J\r\nc\u0007";
    expect(await shown(DIMMED, text)).toBe(`a\tb${String.raw`\u{1b}`}[2J\nc${String.raw`\u{7}`}\n`);
    expect(await shown(PIPE, text)).toBe(`${text}\n`);
  });
});
