// Every help text at every width a terminal may have: no line longer than the terminal, so that it breaks no word.

import { describe, expect, it } from "vitest";
import { commandList } from "./chat/slash-command.js";
import { loadCommands } from "./commands.js";
import { commandHelp, generalHelp, shortHelp } from "./help.js";
import { terminalWidth, wrapCommand, wrapDefinitions, wrapText } from "./wrap.js";

const commands = await loadCommands();
const words = (text: string): readonly string[] =>
  text.split(/\s+/).filter((word) => word !== "" && word !== "\\" && word !== "#");

describe("help", () => {
  const texts: readonly (readonly [name: string, text: (width: number) => string])[] = [
    ["help", (width) => generalHelp(commands, width)],
    ["the short help", (width) => shortHelp(commands, width)],
    ["/help", (width) => commandList(width)],
    ...commands.map((command) => [`help ${command.name}`, (width: number) => commandHelp(command, width)] as const),
  ];

  it.each(texts)("%s fits every terminal from 40 columns on, and says the same in all", (_name, text) => {
    const whole = words(text(10_000));
    for (let width = 40; width <= 200; width++) {
      const shown = text(width);
      // A single argument in quotation marks may be longer than a line.
      const long = shown.split("\n").filter(
        (line) =>
          line.length > width &&
          /\S\s+\S/.test(
            line
              .trim()
              .replace(/"[^"]*"|'[^']*'/g, "x")
              .replace(/ \\$/, ""),
          ),
      );
      expect({ width, long }).toEqual({ width, long: [] });
      expect(words(shown)).toEqual(whole);
    }
  });
});

describe("wrapping", () => {
  it("breaks between words, and keeps a long word whole", () => {
    expect(wrapText("one two three", 7)).toBe("one two\nthree");
    expect(wrapText("a considerable word", 5)).toBe("a\nconsiderable\nword");
    expect(wrapText("", 5)).toBe("");
  });

  it("keeps commands runnable", () => {
    expect(wrapCommand(`rocmforge chat --system "You are a teacher." --temp 0`, 44, "  ")).toBe(
      `  rocmforge chat --system \\\n    "You are a teacher." --temp 0`,
    );
    expect(wrapCommand("rocmforge devices", 40, "  ")).toBe("  rocmforge devices");
  });

  it("puts descriptions beside their terms, or below if there is no room", () => {
    const rows = [
      ["-a", "first and last of all of them in a row of words"],
      ["-b", "second"],
    ] as const;
    expect(wrapDefinitions(rows, 40)).toEqual([
      "  -a  first and last of all of them in a\n      row of words",
      "  -b  second",
    ]);
    expect(wrapDefinitions([["--a-rather-long-option NAME", "what it does"]], 50)).toEqual([
      "  --a-rather-long-option NAME\n        what it does",
    ]);
  });

  it("takes the width from the terminal, else from the environment, else a usual one", () => {
    expect(terminalWidth({ columns: 72 }, { COLUMNS: "50" })).toBe(72);
    expect(terminalWidth({ columns: 10 }, {})).toBe(40);
    expect(terminalWidth({}, { COLUMNS: "50" })).toBe(50);
    expect([terminalWidth({}, {}), terminalWidth({}, { COLUMNS: "wide" }), terminalWidth({ columns: 0 }, {})]).toEqual([
      100, 100, 100,
    ]);
  });
});
