// `npm run bench:peers`: installs the engines that bench/ compares with, apart from the package, and runs the
// comparison.

import { join } from "node:path";
import { ROOT } from "./bootstrap.mjs";
import { install } from "./install.mjs";
import { main, runProgram } from "./tool.mjs";

await main(async (args) => {
  await install(join(ROOT, "bench", "peers"), "peers to compare with");
  const { exitCode } = await runProgram(process.execPath, [join(ROOT, "scripts", "bench.mjs"), "peers", ...args], {
    cwd: ROOT,
    show: true,
  });
  return exitCode;
});
