// Every number that the masks allow lies between its bounds, and every one between them is allowed.

import { describe, test } from "vitest";
import { numberWalks } from "./number-walks.js";

describe("masks of numbers", () => {
  test.each(numberWalks({ bounds: 45, multiples: 15, walks: 200, digits: 4 }))("%s", (_title, run) => run());
});
