import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/longest-first.js";

// `npm test` runs every *.test.ts; *.full.test.ts only with ROCMFORGE_TEST_FULL=1 (`npm run test:full`), and
// *.toolchains.test.ts only with ROCMFORGE_TOOLCHAINS set (`npm run test:toolchains`).
const full = process.env["ROCMFORGE_TEST_FULL"] === "1";
const toolchains = (process.env["ROCMFORGE_TOOLCHAINS"] ?? "") !== "";

export default defineConfig({
  test: {
    exclude: [
      "**/node_modules/**",
      ...(full ? [] : ["**/*.full.test.ts"]),
      ...(toolchains ? [] : ["**/*.toolchains.test.ts"]),
    ],
    testTimeout: full ? 1_800_000 : 120_000,
    hookTimeout: 120_000,
    pool: "forks",
    // One more than the two cores that this is measured on: tests of servers wait for half of their time.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    projects: [
      { extends: true, test: { name: "whole", include: ["test/**/*.test.ts"] } },
      // Unit tests need no process of their own, and starting one and loading the sources takes longer than most of them.
      {
        extends: true,
        test: {
          name: "unit",
          include: ["src/**/*.test.ts", "page/src/**/*.test.ts", "lint/**/*.test.ts"],
          isolate: false,
        },
      },
    ],
  },
});
