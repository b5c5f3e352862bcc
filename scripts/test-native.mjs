// `npm run test:native [-- --target aarch64] [NAME …]`: compiles and runs the C++ test programs under sanitizers.

import { buildNativeTests, missingTool, nativeTestNames, runNativeTest, TARGETS } from "./native-tests.mjs";
import { main, say, ScriptError, step } from "./tool.mjs";

await main(async (args) => {
  const flag = args.indexOf("--target");
  const target = flag === -1 ? "host" : args[flag + 1];
  if (TARGETS[target] === undefined)
    throw new ScriptError(`--target is one of ${Object.keys(TARGETS).join(", ")}`, { exitCode: 2 });
  const asked = args.filter((_argument, index) => flag === -1 || (index !== flag && index !== flag + 1));
  const names = asked.length === 0 ? nativeTestNames() : asked;
  const unknown = names.filter((name) => !nativeTestNames().includes(name));
  if (unknown.length > 0)
    throw new ScriptError(`there is no test ${unknown.join(", ")}; there are ${nativeTestNames().join(", ")}`, {
      exitCode: 2,
    });
  const missing = await missingTool(target);
  if (missing !== undefined) throw new ScriptError(`\`${missing}\` was not found; the C++ tests for ${target} need it`);
  const programs = await step(`compiling the C++ tests for ${target}`, () => buildNativeTests(target, names));
  let failed = 0;
  for (const name of names) {
    const { exitCode, output } = await step(`running ${name}`, () => runNativeTest(target, name, programs.get(name)));
    if (exitCode === 0) continue;
    failed++;
    process.stderr.write(`${output.trimEnd()}\n`);
    say(`${name} failed with status ${exitCode}`);
  }
  return failed === 0 ? 0 : 1;
});
