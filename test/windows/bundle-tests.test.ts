// The conformance tests can be bundled for Windows: without this, an import that the stand-in for vitest does not have is
// noticed under Wine only.

import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { bundleTests, CONFORMANCE_FILES } from "./bundle-tests.js";

it("bundles every conformance test with the stand-in for vitest", async () => {
  using folder = new TemporaryFolder();
  const { program, names } = await bundleTests(folder.path, CONFORMANCE_FILES);
  expect(existsSync(program)).toBe(true);
  expect(names.length).toBeGreaterThan(20);
});
