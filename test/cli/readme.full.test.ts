// The README's long samples: a benchmark, and a file of most of a gigabyte.

import { statSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { isElsewhere, isLong, ReadmeFolder, SAMPLES } from "./readme-samples.js";

describe.skipIf(process.platform === "win32")(
  "long samples of the README (skipped on Windows, which has no such shell)",
  () => {
    it.each(SAMPLES.filter((line) => isLong(line) && !isElsewhere(line)))("%s", { timeout: 600_000 }, (line) => {
      using folder = new ReadmeFolder();
      const { status, stdout, stderr } = folder.run(line);
      expect({ status, stderr: status === 0 ? "" : stderr }).toEqual({ status: 0, stderr: "" });
      expect(stdout).toMatch(/\S/);
      const out = /--out (?<file>\S+)/.exec(line)?.groups?.["file"];
      if (out !== undefined) expect(statSync(folder.file(out)).size).toBeGreaterThan(500_000_000);
    });
  },
);
