// The same as number-walks.test.ts, over ten times as many bounds.

import { describe, test } from "vitest";
import { numberWalks } from "./number-walks.js";

describe("masks of numbers", () => {
  test.each(numberWalks({ bounds: 900, multiples: 300, walks: 200, digits: 5 }))("%s", (_title, run) => run());
});
