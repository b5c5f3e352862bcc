import { expect, test } from "vitest";
import { renderedCharacters } from "./prompt-text.js";

test("a rendered text is as large as its characters and the borders in it", () => {
  expect(renderedCharacters({ text: "12", untrusted: [] })).toBe(2);
  expect(renderedCharacters({ text: "12", untrusted: [0, 1] })).toBe(10);
});
