// Every text that the masks of a list allow is one of the list, and every one of the list is allowed.

import { describe, test } from "vitest";
import { listWalks } from "./list-walks.js";

describe("masks of lists of values", () => {
  test.each(listWalks({ strings: 250, mixed: 60 }))("%s", (_title, run) => run());
});
