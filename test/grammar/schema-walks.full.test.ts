// The same as schema-walks.test.ts, over ten times as many schemas.

import { describe, test } from "vitest";
import { schemaWalks } from "./schema-walks.js";

describe("masks of nested schemas", () => {
  test.each(schemaWalks({ schemas: 300, walks: 200, mostRefused: 10 }))("%s", (_title, run) => run());
});
