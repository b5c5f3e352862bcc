// `npm run test:windows`: the tests under Wine alone, without what the other long tests install.

import { join } from "node:path";
import { bootstrap, ROOT } from "./bootstrap.mjs";
import { main, runProgram } from "./tool.mjs";

await main(async (args) => {
  await bootstrap({ persistent: true });
  const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
  const env = { ...process.env, ROCMFORGE_TEST_FULL: "1" };
  const { exitCode } = await runProgram(process.execPath, [vitest, "run", "test/windows", ...args], {
    cwd: ROOT,
    env,
    show: true,
  });
  return exitCode;
});
