import { describe, expect, it } from "vitest";
import { choiceName, KernelChoices } from "./kernel-choices.js";
import { areParameters, familyOf, type FamilyName, KERNEL_FAMILIES } from "./kernel-families.js";

const usual = { rows: 2, split: 2, depth: 2, threads: 128, blocks: 16 };
const request = {
  family: "gemv",
  key: "shape",
  usual,
  isValid: ({ rows }: typeof usual) => rows !== 4,
  moduleOf: ({ rows, split }: typeof usual) => ({ file: "matmul/gemv", defines: { ROWS: rows, SPLIT: split } }),
} as const;

describe("KernelChoices", () => {
  it("replaces the formula's parameters for one shape, if the choice is valid there", () => {
    const choices = new KernelChoices({ deterministic: false });
    expect(choices.variant(request).parameters).toEqual(usual);
    choices.choose("gemv", "shape", { ...usual, rows: 1, depth: 4 });
    expect(choices.variant(request).parameters).toEqual({ ...usual, rows: 1, depth: 4 });
    expect(choices.variant({ ...request, key: "another" }).parameters).toEqual(usual);
    choices.choose("gemv", "shape", { ...usual, rows: 4 });
    expect(choices.variant(request).parameters).toEqual(usual);
  });

  it("never changes the order of sums in deterministic mode", () => {
    const choices = new KernelChoices({ deterministic: true, poor: true });
    expect(choices.variant(request).parameters).toMatchObject({ split: 2, rows: familyOf("gemv").poor["rows"] });
    choices.choose("gemv", "shape", { ...usual, split: 1, rows: 1 });
    expect(choices.variant(request).parameters).toEqual({ ...usual, rows: 1 });
    expect(choices.neighbours("gemv", usual).every(({ split }) => split === 2)).toBe(true);
  });

  it("tries candidates without keeping them", () => {
    const choices = new KernelChoices({ deterministic: false });
    const trial = choices.with(new Map([[choiceName("gemv", "shape"), { ...usual, rows: 1 }]]));
    expect(trial.variant(request).parameters.rows).toBe(1);
    expect(choices.variant(request).parameters.rows).toBe(2);
  });

  it("takes other parameters in place of a wrong module, and few optimizations if there are none", () => {
    const choices = new KernelChoices({ deterministic: false });
    choices.avoid(request.moduleOf(usual));
    expect(choices.variant(request).parameters).toEqual({ ...usual, rows: 1 });
    const launch = {
      label: "norm",
      file: "rows/norm",
      variants: [{ kernel: "norm", defines: { WIDTH: 8 } }],
      arguments: {},
      grid: () => [1, 1, 1] as const,
    };
    expect(choices.careful(launch)).toBe(launch);
    choices.avoid({ file: "rows/norm", defines: { WIDTH: 8 } });
    expect(choices.careful(launch).variants[0].defines).toEqual({ WIDTH: 8, CAREFUL: 1 });
  });
});

describe("wrong modules", () => {
  it("stop the search for other parameters of their file after two", () => {
    const choices = new KernelChoices({ deterministic: false });
    choices.avoid(request.moduleOf(usual));
    choices.avoid(request.moduleOf(choices.variant(request).parameters));
    // The formula's, which `careful` compiles with few optimizations.
    expect(choices.variant(request).parameters).toEqual(usual);
  });

  it("change the version of everything that was lowered, each once, and are copied", () => {
    const choices = new KernelChoices({ deterministic: false });
    const module = { file: "rows/norm", defines: { WIDTH: 8 } };
    const before = choices.version;
    choices.avoidNamed("rows/norm WIDTH=8");
    choices.avoid(module);
    expect(choices.version).toBe(before + 1);
    expect(choices.isWrong(module)).toBe(true);
    expect(choices.with(new Map()).isWrong(module)).toBe(true);
  });
});

describe("KERNEL_FAMILIES", () => {
  it("declares poor parameters among the candidates, and reordering ones among the parameters", () => {
    for (const name of Object.keys(KERNEL_FAMILIES) as FamilyName[]) {
      const { parameters, poor, reorders } = familyOf(name);
      expect(areParameters(name, poor)).toBe(true);
      for (const [key, value] of Object.entries(poor)) expect(parameters[key]).toContain(value);
      for (const key of reorders) expect(Object.keys(parameters)).toContain(key);
    }
  });

  it("rejects parameters out of range, missing or unknown", () => {
    expect(areParameters("gemv", usual)).toBe(true);
    const wrong = [{}, { ...usual, rows: 1.5 }, { ...usual, rows: 64 }, { ...usual, extra: 1 }];
    expect(wrong.map((parameters) => areParameters("gemv", parameters))).toEqual([false, false, false, false]);
  });
});
