// Every text that the masks of a schema allow satisfies it, and every value that does and is written as the documents say
// is allowed.

import { describe, test } from "vitest";
import { schemaWalks } from "./schema-walks.js";

describe("masks of nested schemas", () => {
  test.each(schemaWalks({ schemas: 15, walks: 200, mostRefused: 5 }))("%s", (_title, run) => run());
});
