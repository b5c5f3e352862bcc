// Keeps docs/errors.md and ERROR_CODES in step: the same codes, the same sentences, in the same order.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { ERROR_CODES } from "../../src/errors.js";

const ROW = /^\| `([A-Z0-9_]+)` \| (.+) \|$/gm;

it("docs/errors.md lists every code with its sentence and no other", () => {
  const page = readFileSync(new URL("../../docs/errors.md", import.meta.url), "utf8");
  const listed = [...page.matchAll(ROW)].map(([, code, sentence]) => [code, sentence]);
  // When this fails: `npm run docs` writes the table anew.
  expect(listed).toEqual(Object.entries(ERROR_CODES));
});

it("rejects codes that look like Node's own", () => {
  expect(Object.keys(ERROR_CODES).filter((code) => code.startsWith("ERR_"))).toEqual([]);
});

it("rejects sentences that are not one sentence", () => {
  const odd = Object.entries(ERROR_CODES).filter(
    ([, sentence]) => !/^[A-Z`].*\.$/.test(sentence) || sentence.includes("|"),
  );
  expect(odd).toEqual([]);
});
