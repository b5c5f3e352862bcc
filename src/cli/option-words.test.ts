// Messages of the library name its own options; the command line replaces them by its own.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { OptionError } from "../errors.js";
import { optionText, refuseValue } from "../options.js";
import { loadCommands } from "./commands.js";
import { hasCommandLineName, inCommandLineWords, messageFor } from "./option-words.js";

const SOURCES = fileURLToPath(new URL("..", import.meta.url));
const commands = await loadCommands();
const optionNames = new Set(commands.flatMap(({ options }) => Object.keys(options)));

function refusal(place: string, option: string, value: unknown): Error {
  try {
    refuseValue(place, option, "something else", value);
  } catch (error) {
    return error as Error;
  }
}

describe("the command line's words", () => {
  it("take the place of the library's, values included", () => {
    expect(inCommandLineWords(`a context of 64 would fit (${optionText("contextTokens", 64)})`)).toBe(
      "a context of 64 would fit (--ctx 64)",
    );
    expect(inCommandLineWords(`in q8_0 (${optionText("kvCacheType", "q8_0")})`)).toBe("in q8_0 (--kv-type q8_0)");
    expect(inCommandLineWords(`${optionText("device")} takes the number, too`)).toBe("--device takes the number, too");
    expect(inCommandLineWords("run `rocmforge doctor --build`, not `somethingElse: 5`")).toBe(
      "run `rocmforge doctor --build`, not `somethingElse: 5`",
    );
  });

  it("name the command if an option is refused", () => {
    expect(messageFor(refusal("loadModel", "kvCacheType", "q5"), "generate")).toBe(
      "[generate] --kv-type: expected something else, found q5",
    );
    expect(messageFor(refusal("sampler", "topK", -1), "chat")).toBe(
      "[chat] --top-k: expected something else, found -1",
    );
    expect(
      messageFor(
        new OptionError("OPTION_VALUE", "[generate] --seed: expected a number", { details: { option: "seed" } }),
        "generate",
      ),
    ).toBe("[generate] --seed: expected a number");
    expect(messageFor(refusal("loader", "cacheBudgetBytes", 1), "plan")).toBe(
      "[loader] cacheBudgetBytes: expected something else, found 1",
    );
  });
});

describe("the library's own words", () => {
  const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !/^cli\/|\.test\.ts$|(?:^|\/)testing\//.test(name))
    .map((name) => ({ name, lines: readFileSync(join(SOURCES, name), "utf8").split("\n") }));
  /** Comments are for those who read the source. */
  const texts = files.flatMap(({ name, lines }) =>
    lines
      .filter((line) => !/^\s*(?:\/\/|\/?\*)/.test(line))
      .map((line) => ({ name, line: line.replace(/\s\/\/ .*$/, "") })),
  );

  it("are looked at", () => {
    expect(files.map(({ name }) => name)).toContain("backends/memory-fit.ts");
    expect(optionNames.has("kv-type")).toBe(true);
  });

  it("have no option as the command line spells it, commands of ours aside", () => {
    const spelled = texts.filter(({ line }) => {
      const rest = line.replace(/`rocmforge [^`]*`/g, "");
      return [...rest.matchAll(/(?<![\w-])--(?<name>[a-z][a-z-]*)/g)].some(({ groups }) =>
        optionNames.has(groups?.["name"] ?? ""),
      );
    });
    expect(spelled.map(({ name, line }) => `${name}: ${line.trim()}`)).toEqual([]);
  });

  it("mark only options that the command line has a name for", () => {
    const marked = texts.flatMap(({ name, line }) =>
      [...line.matchAll(/optionText\("(?<option>\w+)"/g)].map(({ groups }) => ({
        name,
        option: groups?.["option"] ?? "",
      })),
    );
    expect(marked.length).toBeGreaterThan(2);
    expect(marked.filter(({ option }) => !hasCommandLineName(option))).toEqual([]);
  });

  it("reach options that the command line has", () => {
    const spelled = [
      "contextTokens",
      "kvCacheType",
      "temperature",
      "penaltyTokens",
      "port",
      "maxSequences",
      "apiKeys",
      "idleTimeoutMs",
    ].map((option) => inCommandLineWords(optionText(option)).slice(2));
    expect(spelled.filter((name) => !optionNames.has(name))).toEqual([]);
  });
});
