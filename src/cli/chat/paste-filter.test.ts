import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type KeyEvent, PasteFilter, PastedTexts } from "./paste-filter.js";

const BEGIN = "\u001b[200~";
const END = "\u001b[201~";

/** Keys joined where they follow each other: how they are cut means nothing. */
function joined(events: readonly KeyEvent[]): readonly KeyEvent[] {
  const result: KeyEvent[] = [];
  for (const event of events) {
    const last = result.at(-1);
    if (event.kind === "keys" && last?.kind === "keys")
      result[result.length - 1] = { kind: "keys", text: last.text + event.text };
    else result.push(event);
  }
  return result;
}

function eventsOf(...chunks: readonly string[]): readonly KeyEvent[] {
  const filter = new PasteFilter();
  return joined(chunks.flatMap((chunk) => filter.push(chunk)));
}

describe("pasted text", () => {
  it("is told from keys", () => {
    expect(eventsOf(`a${BEGIN}one\rtwo${END}\r`)).toEqual([
      { kind: "keys", text: "a" },
      { kind: "paste", text: "one\rtwo" },
      { kind: "keys", text: "\r" },
    ]);
  });

  it("that never ends is ended and dropped by Ctrl-C alone", () => {
    expect(eventsOf("a", `${BEGIN}one`, "two\u001b[20", "\u0003", "b")).toEqual([{ kind: "keys", text: "a\u0003b" }]);
    expect(eventsOf(`${BEGIN}one\u0003two`, END)).toEqual([{ kind: "paste", text: "one\u0003two" }]);
  });

  it("is the same however it is cut, escape sequences aside that are cut after their first character, and Ctrl-C alone", () => {
    const part = fc.oneof(fc.constantFrom(BEGIN, END, "\u001b[A", "\r", "\u001b["), fc.string({ unit: "binary" }));
    fc.assert(
      fc.property(
        fc.array(part, { maxLength: 12 }),
        fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 5 }),
        (parts, sizes) => {
          // What could still become a mark comes with what follows.
          const text = `${parts.join("")}end`;
          const chunks: string[] = [];
          for (let at = 0; at < text.length;) {
            let size = sizes[chunks.length % sizes.length];
            while (text[at + size - 1] === "\u001b" || text.slice(at, at + size) === "\u0003") size++;
            chunks.push(text.slice(at, at + size));
            at += size;
          }
          expect(eventsOf(...chunks)).toEqual(eventsOf(text));
        },
      ),
    );
  });

  it("holds no key back", () => {
    expect(eventsOf("\u001b")).toEqual([{ kind: "keys", text: "\u001b" }]);
    expect(eventsOf("\u001b[A")).toEqual([{ kind: "keys", text: "\u001b[A" }]);
  });
});

describe("the line with pasted text in it", () => {
  it("has short text as if it were typed", () => {
    expect(new PastedTexts().keep("one two\n")).toBe("one two");
  });

  it("has a name for text of several lines, and the text when it is read", () => {
    const pasted = new PastedTexts();
    const name = pasted.keep("one\r\ntwo\rthree\n");
    expect(name).toBe("[pasted 1: 3 lines]");
    expect(pasted.expand(`see ${name} and [pasted 2: 3 lines]`)).toBe("see one\ntwo\nthree and [pasted 2: 3 lines]");
  });

  it("gives keys that a terminal would obey a name", () => {
    expect(new PastedTexts().keep("\u001b[2J\u0003")).toBe("[pasted 1: 1 line]");
    expect(new PastedTexts().keep("a\tb")).toBe("[pasted 1: 1 line]");
  });

  it("keeps a bounded amount", () => {
    const pasted = new PastedTexts();
    const names = Array.from({ length: 40 }, (_, index) => pasted.keep(`${index}\n${"x".repeat(2 ** 20)}`));
    expect(pasted.expand(names[0])).toBe(names[0]);
    expect(pasted.expand(names[39]).startsWith("39\nxxx")).toBe(true);
  });
});
