// The samples of docs/, and the long ones of the README: a benchmark, and a file of most of a gigabyte.

import { statSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { expectBlock, expectSample, expectServer } from "./readme-expectations.js";
import {
  HUB_BLOCKS,
  isElsewhere,
  isLong,
  README_SAMPLES,
  ReadmeFolder,
  SAMPLES,
  SERVER_SAMPLES,
} from "./readme-samples.js";

const ofDocs = SAMPLES.filter((line) => !README_SAMPLES.includes(line));

describe.skipIf(process.platform === "win32")(
  "samples of docs/, and long ones of the README (skipped on Windows, which has no such shell)",
  () => {
    it.each(ofDocs.filter((line) => !isLong(line) && !isElsewhere(line)))("%s", expectSample);

    it.each(SERVER_SAMPLES.filter((line) => ofDocs.includes(line)))("%s", expectServer);

    it.each(HUB_BLOCKS.filter(({ page }) => page !== "README.md"))("$page:$line, with a hub on localhost", expectBlock);

    it.each(SAMPLES.filter((line) => isLong(line) && !isElsewhere(line)))("%s", { timeout: 600_000 }, async (line) => {
      using folder = new ReadmeFolder();
      const { status, stdout, stderr } = await folder.run(line);
      expect({ status, stderr: status === 0 ? "" : stderr }).toEqual({ status: 0, stderr: "" });
      expect(stdout).toMatch(/\S/);
      const out = /--out (?<file>\S+)/.exec(line)?.groups?.["file"];
      if (out !== undefined) expect(statSync(folder.file(out)).size).toBeGreaterThan(500_000_000);
    });
  },
);
