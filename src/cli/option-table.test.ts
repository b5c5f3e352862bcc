import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OptionError } from "../errors.js";
import { type OptionTable, parseOptions } from "./option-table.js";

const TABLE = {
  name: { kind: "text", short: "n", placeholder: "TEXT", description: "" },
  word: { kind: "list", placeholder: "TEXT", description: "" },
  size: { kind: "count", short: "s", placeholder: "COUNT", range: { from: -5, to: 100 }, description: "" },
  share: { kind: "number", placeholder: "NUMBER", range: { from: 0, to: 1, above: true }, description: "" },
  quiet: { kind: "flag", short: "q", description: "" },
} as const satisfies OptionTable;

const parse = (...args: readonly string[]) => parseOptions("test", TABLE, args);

describe("parseOptions", () => {
  it("omits options that were not given", () => {
    expect(parse()).toEqual({
      values: { name: undefined, word: [], size: undefined, share: undefined, quiet: false },
      positionals: [],
    });
  });

  it("reads every kind in every spelling", () => {
    const { values, positionals } = parse(
      "-n",
      "a b",
      "--word=x",
      "--word",
      "y",
      "-s5",
      "--share",
      ".5",
      "-q",
      "rest",
      "--",
      "--quiet",
    );
    expect(values).toEqual({ name: "a b", word: ["x", "y"], size: 5, share: 0.5, quiet: true });
    expect(positionals).toEqual(["rest", "--quiet"]);
  });

  it("takes the last of a repeated option", () => {
    expect(parse("-s", "1", "-s", "2").values.size).toBe(2);
  });

  it("takes values that start with a dash, unless they are options", () => {
    expect(parse("-s", "-5", "-n", "-x y", "--word", "-").values).toMatchObject({
      size: -5,
      name: "-x y",
      word: ["-"],
    });
    expect(parse("--name=--quiet").values.name).toBe("--quiet");
    expect(() => parse("--name", "--quiet")).toThrow(
      /--name: expected TEXT .*found the option --quiet; .*--name=--quiet/,
    );
    expect(() => parse("--size", "-q")).toThrow(/--size: expected COUNT .*found the option -q$/);
  });

  it.each(["", " ", "1x", "x1", "0x10", "1e1", "1.0", "NaN", "Infinity", "101", "-6", "9".repeat(400), "１"])(
    "rejects %j as a count",
    (text) => {
      expect(() => parse(`--size=${text}`)).toThrow(/\[test\] --size: expected a whole number from -5 to 100, found "/);
    },
  );

  it.each(["", "NaN", "0", "-0", "1.1", "1e400", "0.5.5", "1,0", "."])("rejects %j as a number above 0", (text) => {
    expect(() => parse(`--share=${text}`)).toThrow(/\[test\] --share: expected a number above 0, at most 1, found "/);
  });

  it("reads back any number it was given", () => {
    fc.assert(
      fc.property(fc.double({ min: Number.MIN_VALUE, max: 1, noNaN: true }), (value) => {
        expect(parse("--share", String(value)).values.share).toBe(value);
      }),
    );
  });

  it("throws nothing but OptionError, whatever the arguments", () => {
    const argument = fc.oneof(
      fc.string(),
      fc.constantFrom("-n", "--name", "--size", "-s", "-q", "--quiet=1", "--", "--__proto__", "-qs", "--="),
    );
    fc.assert(
      fc.property(fc.array(argument, { maxLength: 6 }), (args) => {
        try {
          parse(...args);
        } catch (error) {
          expect(error).toBeInstanceOf(OptionError);
        }
      }),
    );
  });
});
