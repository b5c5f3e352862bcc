import { join } from "node:path";
import { expect, it } from "vitest";
import { expandHome } from "./home-path.js";

it("expands a tilde at the beginning, and no other", () => {
  expect(["~/a.json", "~", "~x/a.json", "./~/a.json", "/a"].map((path) => expandHome(path, "/home/x"))).toEqual([
    join("/home/x", "a.json"),
    "~",
    "~x/a.json",
    "./~/a.json",
    "/a",
  ]);
});
