import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Matrix } from "./matrix.js";
import { matmul } from "./matmul.js";
import { add, embed, glu, quantizeActivations, rmsNorm, rope } from "./row-kernels.js";

function matrix(rows: readonly (readonly number[])[]): Matrix {
  const width = rows[0].length;
  return { data: Float32Array.from(rows.flat()), offset: 0, stride: width, rows: rows.length, width };
}

function empty(rows: number, width: number): Matrix {
  return { data: new Float32Array(rows * width), offset: 0, stride: width, rows, width };
}

describe("matmul", () => {
  it("computes each row as a plain dot product, for any number of tokens, columns and inputs", () => {
    const sizes = fc.record({
      tokens: fc.integer({ min: 1, max: 9 }),
      columns: fc.integer({ min: 1, max: 7 }),
      inputs: fc.integer({ min: 1, max: 11 }),
    });
    fc.assert(
      fc.property(sizes, fc.boolean(), fc.nat(), ({ tokens, columns, inputs }, hasBias, seed) => {
        const value = (index: number): number => Math.fround(Math.sin(index * 12.9898 + seed));
        const input: Matrix = { ...empty(tokens, inputs + 2), offset: 1, width: inputs };
        input.data.forEach((_, index) => (input.data[index] = value(index)));
        const weight = {
          values: Float32Array.from({ length: columns * inputs }, (_, index) => value(index + 1000)),
          rowLength: inputs,
        };
        const bias = hasBias ? Float32Array.from({ length: columns }, (_, index) => value(index + 5000)) : undefined;
        const out = empty(tokens, columns);
        matmul(input, weight, { scale: 0.5, bias, softCap: undefined }, out);
        for (let row = 0; row < tokens; row++) {
          for (let column = 0; column < columns; column++) {
            let sum = 0;
            for (let k = 0; k < inputs; k++)
              sum += input.data[1 + row * (inputs + 2) + k] * weight.values[column * inputs + k];
            expect(out.data[row * columns + column]).toBeCloseTo(sum * 0.5 + (bias?.[column] ?? 0), 5);
          }
        }
      }),
    );
  });
});

describe("rope", () => {
  const table = { ratio: 0.25, stretches: [1, 1], magnitude: 1 };
  const shape = { kind: "rope", input: 0, out: 1, rope: 0, heads: 1, headWidth: 6, rotaryWidth: 4 } as const;
  const rotated = (x: number, y: number, angle: number): number[] => [
    Math.cos(angle) * x - Math.sin(angle) * y,
    Math.sin(angle) * x + Math.cos(angle) * y,
  ];

  it("rotates neighbours together in the adjacent style, and leaves the rest of the head alone", () => {
    const out = empty(1, 6);
    rope({ ...shape, style: "adjacent" }, table, undefined, Int32Array.of(3), matrix([[1, 2, 3, 4, 5, 6]]), out);
    const expected = [...rotated(1, 2, 3), ...rotated(3, 4, 0.75), 5, 6];
    for (const [index, value] of expected.entries()) expect(out.data[index]).toBeCloseTo(value, 5);
  });

  it("rotates the two halves together in the halves style", () => {
    const out = empty(1, 6);
    rope({ ...shape, style: "halves" }, table, undefined, Int32Array.of(2), matrix([[1, 2, 3, 4, 5, 6]]), out);
    const [first, third] = rotated(1, 3, 2);
    const [second, fourth] = rotated(2, 4, 0.5);
    for (const [index, value] of [first, second, third, fourth, 5, 6].entries())
      expect(out.data[index]).toBeCloseTo(value, 5);
  });

  it("divides angles by the file's factors and multiplies by the magnitude", () => {
    const out = empty(1, 6);
    const factors = Float32Array.of(1, 8);
    rope(
      { ...shape, style: "adjacent" },
      { ...table, magnitude: 2 },
      factors,
      Int32Array.of(4),
      matrix([[1, 0, 1, 0, 0, 0]]),
      out,
    );
    expect(out.data[0]).toBeCloseTo(2 * Math.cos(4), 5);
    expect(out.data[2]).toBeCloseTo(2 * Math.cos(0.125), 5);
  });

  it("makes dot products depend on the distance alone", () => {
    const dot = (queryAt: number, keyAt: number): number => {
      const [query, key] = [empty(1, 6), empty(1, 6)];
      rope(
        { ...shape, style: "halves" },
        table,
        undefined,
        Int32Array.of(queryAt),
        matrix([[1, -2, 0.5, 3, 1, 1]]),
        query,
      );
      rope({ ...shape, style: "halves" }, table, undefined, Int32Array.of(keyAt), matrix([[0.3, 1, -1, 2, 2, 1]]), key);
      return query.data.reduce((sum, value, index) => sum + value * key.data[index], 0);
    };
    expect(dot(9, 4)).toBeCloseTo(dot(105, 100), 4);
    expect(Math.abs(dot(9, 4) - dot(9, 5))).toBeGreaterThan(0.01);
  });
});

describe("rmsNorm", () => {
  it("brings each group to unit root mean square before the weight", () => {
    const operation = { kind: "rms-norm", input: 0, weight: 0, groupWidth: 2, epsilon: 0, out: 1 } as const;
    const out = empty(1, 4);
    rmsNorm(operation, matrix([[3, 4, -6, 8]]), Float32Array.of(1, 10), out);
    const unit = Math.sqrt(12.5);
    for (const [index, value] of [3 / unit, 40 / unit, -6 / (2 * unit), 80 / (2 * unit)].entries()) {
      expect(out.data[index]).toBeCloseTo(value, 5);
    }
  });
});

describe("glu, embed and add", () => {
  it("multiplies silu of the gate with up", () => {
    const out = empty(1, 3);
    glu("silu", matrix([[0, 1, -20]]), matrix([[5, 2, 3]]), out);
    expect(out.data[0]).toBe(0);
    expect(out.data[1]).toBeCloseTo(2 / (1 + Math.exp(-1)), 6);
    expect(out.data[2]).toBeCloseTo(0, 6);
  });

  it("multiplies the tanh approximation of GELU of the gate with up, without overflow", () => {
    const out = empty(1, 5);
    glu("gelu", matrix([[0, 1, -1, 1e30, -1e30]]), matrix([[5, 2, 3, 1, 1]]), out);
    expect(out.data[0]).toBe(0);
    expect(out.data[1]).toBeCloseTo(2 * 0.841192, 5);
    expect(out.data[2]).toBeCloseTo(-3 * 0.158808, 5);
    expect(out.data[3]).toBe(Math.fround(1e30));
    expect(out.data[4]).toBeCloseTo(0, 6);
  });

  it("multiplies embedding rows by the scale", () => {
    const out = empty(2, 2);
    embed({ kind: "embed", table: 0, out: 0, scale: 3 }, Int32Array.of(1, 0), Float32Array.of(1, 2, 3, 4), out);
    expect([...out.data]).toEqual([9, 12, 3, 6]);
  });

  it("adds views with other strides", () => {
    const wide: Matrix = { data: Float32Array.of(9, 1, 2, 9, 3, 4), offset: 1, stride: 3, rows: 2, width: 2 };
    const out = empty(2, 2);
    add(
      wide,
      matrix([
        [10, 20],
        [30, 40],
      ]),
      out,
    );
    expect([...out.data]).toEqual([11, 22, 33, 44]);
  });
});

describe("quantizeActivations", () => {
  it("keeps every value within half a step of its block's scale, and zero blocks at zero", () => {
    // Magnitudes whose 127th part is no normal f32 have no scale: they quantize to zero.
    const value = fc
      .float({ noNaN: true, noDefaultInfinity: true, min: -1e6, max: 1e6 })
      .map((x) => (Math.abs(x) < 1e-30 ? 0 : x));
    const row = fc.array(value, { minLength: 1, maxLength: 80 });
    fc.assert(
      fc.property(row, (values) => {
        const out = empty(1, values.length);
        quantizeActivations(matrix([values]), out);
        for (let start = 0; start < values.length; start += 32) {
          const block = values.slice(start, start + 32);
          const scale = Math.fround(Math.max(...block.map(Math.abs)) / 127);
          for (const [index, original] of block.entries()) {
            expect(Math.abs(out.data[start + index] - original)).toBeLessThanOrEqual(scale * 0.5001);
          }
        }
      }),
    );
  });
});
