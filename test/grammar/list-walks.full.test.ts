// The same as list-walks.test.ts, over many more lists.

import { describe, test } from "vitest";
import { listWalks } from "./list-walks.js";

describe("masks of lists of values", () => {
  test.each(listWalks({ strings: 3000, mixed: 600 }))("%s", (_title, run) => run());
});
