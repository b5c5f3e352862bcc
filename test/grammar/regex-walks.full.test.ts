// The same as regex-walks.test.ts, over ten times as many expressions.

import { describe, test } from "vitest";
import { regexWalks } from "./regex-walks.js";

describe("masks of regular expressions", () => {
  test.each(regexWalks({ whole: 600, patterns: 400, walks: 200, letters: 5 }))("%s", (_title, run) => run());
});
