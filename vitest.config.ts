import { defineConfig } from "vitest/config";

// `npm test` runs every *.test.ts; *.full.test.ts only with ROCMFORGE_TEST_FULL=1 (`npm run test:full`), and
// *.toolchains.test.ts only with ROCMFORGE_TOOLCHAINS set (`npm run test:toolchains`).
const full = process.env["ROCMFORGE_TEST_FULL"] === "1";
const toolchains = (process.env["ROCMFORGE_TOOLCHAINS"] ?? "") !== "";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts", "lint/**/*.test.ts"],
    exclude: [
      "**/node_modules/**",
      ...(full ? [] : ["**/*.full.test.ts"]),
      ...(toolchains ? [] : ["**/*.toolchains.test.ts"]),
    ],
    testTimeout: full ? 1_800_000 : 120_000,
    hookTimeout: 120_000,
    pool: "forks",
    maxWorkers: 2,
  },
});
