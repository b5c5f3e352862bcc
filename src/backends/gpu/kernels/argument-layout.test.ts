import { describe, expect, it } from "vitest";
import { GpuError } from "../../../errors.js";
import { type ArgumentLayout, KernelArguments, parseArgumentLayouts } from "./argument-layout.js";

function layoutOf(body: string): ArgumentLayout {
  const layout = parseArgumentLayouts("test", `struct TestArguments {\n${body}\n};`).get("TestArguments");
  if (layout === undefined) throw new TypeError("no layout");
  return layout;
}

function argumentsOf(body: string): { readonly written: KernelArguments; readonly view: DataView } {
  const layout = layoutOf(body);
  const view = new DataView(new ArrayBuffer(layout.sizeBytes));
  return { written: new KernelArguments({ view }, layout), view };
}

describe("parseArgumentLayouts", () => {
  it("gives every member its natural alignment, as a compiler does", () => {
    const { fields, sizeBytes } = layoutOf(
      "const u8* weights; int width; float* out; u32 count; float scale; int last; u64 cache; int tail;",
    );
    expect(fields.map(({ name, kind, offset }) => [name, kind, offset])).toEqual([
      ["weights", "pointer", 0],
      ["width", "int", 8],
      ["out", "pointer", 16],
      ["count", "u32", 24],
      ["scale", "float", 28],
      ["last", "int", 32],
      ["cache", "u64", 40],
      ["tail", "int", 48],
    ]);
    expect(sizeBytes).toBe(56);
  });

  it("does not round four-byte structs up to eight", () => {
    expect(layoutOf("int a; float b; u32 c;").sizeBytes).toBe(12);
  });

  it("reads pointers however they are spelt", () => {
    const { fields } = layoutOf(
      "const StepHead* step; float * out; const u8 *weights; const float* __restrict__ bias; const unsigned char* bytes;",
    );
    expect(fields.map(({ name, kind }) => `${kind} ${name}`)).toEqual([
      "pointer step",
      "pointer out",
      "pointer weights",
      "pointer bias",
      "pointer bytes",
    ]);
  });

  it("finds every struct of a file", () => {
    const layouts = parseArgumentLayouts(
      "test",
      "struct OneArguments { int a; };\nstruct Other { int x[3]; };\nstruct TwoArguments {\n  float* b;\n};",
    );
    expect([...layouts.keys()]).toEqual(["OneArguments", "TwoArguments"]);
  });

  for (const body of ["int a[3];", "double a;", "StepHead head;", "int a; int a;", "int a, b;", "long a;", ""]) {
    it(`rejects a struct of "${body}"`, () => {
      expect(() => layoutOf(body)).toThrow(GpuError);
    });
  }
});

describe("KernelArguments", () => {
  const body = "const u8* source; int width; float scale; u32 count; u64 cache;";
  const values = { source: 0x7f00_0000_1234n, width: -5, scale: 0.5, count: 4_000_000_000, cache: 2n ** 63n };

  it("writes each member in its own type", () => {
    const { written, view } = argumentsOf(body);
    written.set(values);
    expect(view.getBigUint64(0, true)).toBe(values.source);
    expect(view.getInt32(8, true)).toBe(-5);
    expect(view.getFloat32(12, true)).toBe(0.5);
    expect(view.getUint32(16, true)).toBe(4_000_000_000);
    expect(view.getBigUint64(24, true)).toBe(values.cache);
  });

  it("updates some and leaves the others", () => {
    const { written, view } = argumentsOf(body);
    written.set(values).update({ width: 7 });
    const setScale = written.setter("scale");
    setScale(2);
    expect([view.getInt32(8, true), view.getFloat32(12, true), view.getUint32(16, true)]).toEqual([
      7, 2, 4_000_000_000,
    ]);
  });

  it("rejects members that are missing or unknown, by name", () => {
    const { written } = argumentsOf(body);
    const { width: _width, ...rest } = values;
    expect(() => written.set(rest)).toThrow(/TestArguments: no value for width/);
    expect(() => written.set({ ...values, widht: 1 })).toThrow(/has no member widht; it has source, width/);
    expect(() => written.setter("nothing")).toThrow(/has no member nothing/);
  });

  it("rejects numbers that would be cut", () => {
    const { written } = argumentsOf(body);
    for (const wrong of [
      { width: 2 ** 31 },
      { width: 0.5 },
      { count: -1 },
      { count: 2 ** 32 },
      { width: Number.NaN },
    ]) {
      expect(() => written.update(wrong)).toThrow(RangeError);
    }
  });

  it("rejects a block that is too small", () => {
    expect(() => new KernelArguments({ view: new DataView(new ArrayBuffer(8)) }, layoutOf(body))).toThrow(
      /takes 32 bytes and the block has 8/,
    );
  });
});
