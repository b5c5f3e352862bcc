// Every text that the masks of a regular expression allow matches it, and every one that matches is allowed.

import { describe, test } from "vitest";
import { regexWalks } from "./regex-walks.js";

describe("masks of regular expressions", () => {
  test.each(regexWalks({ whole: 30, patterns: 20, walks: 200, letters: 4 }))("%s", (_title, run) => run());
});
