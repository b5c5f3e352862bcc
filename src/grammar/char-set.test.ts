import fc from "fast-check";
import { expect, test } from "vitest";
import { CharSet, utf8Sequences } from "./char-set.js";

const code = fc.integer({ min: 0, max: 0x10ffff });
const range = fc.tuple(code, code).map(([a, b]): [number, number] => [Math.min(a, b), Math.max(a, b)]);
const ranges = fc.array(range, { maxLength: 6 });
const isSurrogate = (point: number): boolean => point >= 0xd800 && point <= 0xdfff;

test("sets hold what they were made of, and their complement the rest", () => {
  fc.assert(
    fc.property(ranges, ranges, fc.array(code, { minLength: 30, maxLength: 30 }), (left, right, points) => {
      const [a, b] = [CharSet.of(...left), CharSet.of(...right)];
      for (const point of [...points, ...left.flat(), ...right.flat()]) {
        const [inA, inB] = [left, right].map(
          (list) => !isSurrogate(point) && list.some(([from, to]) => point >= from && point <= to),
        );
        expect(a.has(point)).toBe(inA);
        expect(a.complement().has(point)).toBe(!isSurrogate(point) && !inA);
        expect(a.union(b).has(point)).toBe(inA || inB);
        expect(a.intersection(b).has(point)).toBe(inA && inB);
        expect(a.minus(b).has(point)).toBe(inA && !inB);
      }
    }),
  );
});

test("UTF-8 forms of a range fit the bytes of its characters, and of no others", () => {
  fc.assert(
    fc.property(range, fc.array(code, { minLength: 30, maxLength: 30 }), ([from, to], points) => {
      const sequences = CharSet.of([from, to]).ranges.flatMap(utf8Sequences);
      for (const point of [...points, from, to, from - 1, to + 1]) {
        if (point < 0 || point > 0x10ffff || isSurrogate(point)) continue;
        const bytes = [...Buffer.from(String.fromCodePoint(point))];
        const fits = sequences.some(
          (parts) =>
            parts.length === bytes.length &&
            parts.every((part, at) => (bytes[at] as number) >= part.from && (bytes[at] as number) <= part.to),
        );
        expect({ point, fits }).toEqual({ point, fits: point >= from && point <= to });
      }
    }),
  );
});
