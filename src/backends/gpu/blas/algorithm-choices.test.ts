import { expect, test } from "vitest";
import { AlgorithmChoices, choiceTokens } from "./algorithm-choices.js";

const BYTES = 8;
const shape = (tokens: number): string => `4 32 ${tokens} 32 4`;
const ALGORITHM = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);

function kept(): Buffer {
  const choices = new AlgorithmChoices(BYTES);
  // Bytes beyond the algorithm, such as the workspace it needs, are not part of it.
  choices.set(shape(512), Uint8Array.of(...ALGORITHM, 99));
  return Buffer.from(choices.changed() ?? []);
}

test("what was kept comes back, and only what is new is kept again", () => {
  const choices = new AlgorithmChoices(BYTES);
  expect(choices.restore(kept())).toBe(true);
  expect(choices.get(shape(512))).toEqual(ALGORITHM);
  expect(choices.get(shape(513))).toBeUndefined();
  expect(choices.changed()).toBeUndefined();
  choices.set(shape(640), ALGORITHM);
  expect(choices.changed()).toBeDefined();
});

test("what this process chose stands", () => {
  const choices = new AlgorithmChoices(BYTES);
  choices.set(shape(512), new Uint8Array(BYTES));
  choices.restore(kept());
  expect(choices.get(shape(512))).toEqual(new Uint8Array(BYTES));
});

test.each([
  ["nothing", ""],
  ["no JSON", "{"],
  ["a list", "[]"],
  ["null", "null"],
  ["another shape", JSON.stringify({ "4 32": "0102030405060708" })],
  ["a shape of words", JSON.stringify({ __proto__x: "0102030405060708" })],
  ["numbers that are too long", JSON.stringify({ "4 32 512 32 99999999999": "0102030405060708" })],
  ["too few bytes", JSON.stringify({ "4 32 512 32 4": "01020304" })],
  ["too many bytes", JSON.stringify({ "4 32 512 32 4": "010203040506070809" })],
  ["no hexadecimal", JSON.stringify({ "4 32 512 32 4": "010203040506070z" })],
  ["no text", JSON.stringify({ "4 32 512 32 4": 5 })],
  ["one of two", JSON.stringify({ "4 32 512 32 4": "0102030405060708", "5 32 512 32 4": null })],
  [
    "too many",
    JSON.stringify(
      Object.fromEntries(Array.from({ length: 4097 }, (_, rows) => [`${rows} 32 512 32 4`, "0102030405060708"])),
    ),
  ],
])("ignores %s", (_name, text) => {
  const choices = new AlgorithmChoices(BYTES);
  expect(choices.restore(Buffer.from(text))).toBe(false);
  expect(choices.size).toBe(0);
});

test("stays bounded", () => {
  const choices = new AlgorithmChoices(BYTES);
  for (let tokens = 0; tokens < 10_000; tokens++) choices.set(shape(tokens), ALGORITHM);
  expect(choices.size).toBeLessThanOrEqual(4096);
});

test("numbers of tokens are rounded up, in steps of at most a fifth of them or so", () => {
  expect([1, 128, 129, 384, 385, 1024, 1025, 2048, 2049, 4096].map((tokens) => choiceTokens(tokens))).toEqual([
    1, 128, 256, 384, 512, 1024, 1280, 2048, 2560, 4096,
  ]);
  expect(choiceTokens(4000, 4050)).toBe(4050);
});
