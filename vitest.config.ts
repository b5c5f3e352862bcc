import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/longest-first.js";

// `npm test` runs every *.test.ts; *.full.test.ts only with ROCMFORGE_TEST_FULL=1 (`npm run test:full`), and
// *.toolchains.test.ts only with ROCMFORGE_TOOLCHAINS set (`npm run test:toolchains`).
const full = process.env["ROCMFORGE_TEST_FULL"] === "1";
const toolchains = (process.env["ROCMFORGE_TOOLCHAINS"] ?? "") !== "";

const exclude = [
  "**/node_modules/**",
  ...(full ? [] : ["**/*.full.test.ts"]),
  ...(toolchains ? [] : ["**/*.toolchains.test.ts"]),
];
/** They open the emulated device, which a process then has for good. */
const CONFORMANCE = ["test/conformance/**/*.test.ts"];
/** Properties are tested in `sharing` and `unit` alone. */
const PROPERTY_SETUP = [fileURLToPath(new URL("test/support/property-seed.ts", import.meta.url))];
const SHARING = ["test/grammar/**/*.test.ts", "test/library/**/*.test.ts", "test/server/*.test.ts"];

/**
 * Room for what a test file makes. A process begins with a young generation of 1 MB and a small heap, which files that load
 * models with the sources of everything fill again and again; a tenth and more of the time on a processor went to V8's
 * garbage collection.
 */
const HEAP_OPTIONS = ["--min-semi-space-size=32", "--max-semi-space-size=64", "--initial-heap-size=512"];

export default defineConfig({
  test: {
    exclude,
    testTimeout: full ? 1_800_000 : 120_000,
    hookTimeout: 120_000,
    // What is waited for comes at once on a quiet machine.
    expect: { poll: { timeout: 60_000 } },
    pool: "forks",
    execArgv: HEAP_OPTIONS,
    setupFiles: [fileURLToPath(new URL("test/support/plain-environment.ts", import.meta.url))],
    // Two more than the cores that this is measured on: tests of servers and commands wait for half of their time.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: { name: "whole", include: ["test/**/*.test.ts"], exclude: [...exclude, ...CONFORMANCE, ...SHARING] },
      },
      // These leave nothing behind in their process, and starting one and loading the sources takes longer than most of them.
      { extends: true, test: { name: "conformance", include: CONFORMANCE, isolate: false } },
      { extends: true, test: { name: "sharing", include: SHARING, isolate: false, setupFiles: PROPERTY_SETUP } },
      {
        extends: true,
        test: {
          name: "unit",
          include: ["src/**/*.test.ts", "page/src/**/*.test.ts", "lint/**/*.test.ts"],
          isolate: false,
          setupFiles: PROPERTY_SETUP,
        },
      },
    ],
  },
});
