// `npm run bench -- NAME [args]`: compiles bench/ with the sources and calls `run(args)` of bench/NAME.ts. Without a
// name it lists the benchmarks.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { bootstrap, compilerPath, ROOT } from "./bootstrap.mjs";
import { main, runTool, ScriptError } from "./tool.mjs";

function benchNames() {
  return readdirSync(join(ROOT, "bench"), { withFileTypes: true })
    .filter((entry) => entry.isFile() && /^[a-z0-9-]+\.ts$/.test(entry.name))
    .map((entry) => entry.name.slice(0, -".ts".length))
    .filter((name) =>
      /^export (?:async )?(?:function|const) run\b/m.test(readFileSync(join(ROOT, "bench", `${name}.ts`), "utf8")),
    );
}

function listing(names) {
  return names.length === 0 ? "bench/ holds no benchmark yet" : `benchmarks: ${names.join(", ")}`;
}

await main(async ([name, ...args]) => {
  const names = benchNames();
  if (name === undefined) {
    console.log(`${listing(names)}\nusage: npm run bench -- NAME [options]`);
    return 0;
  }
  if (!names.includes(name))
    throw new ScriptError(`there is no benchmark "${name}"; ${listing(names)}`, { exitCode: 2 });
  await bootstrap();
  await runTool(
    "compiling bench/ (tsc -p tsconfig.bench.json)",
    process.execPath,
    [compilerPath(), "-p", "tsconfig.bench.json"],
    {
      cwd: ROOT,
      otherwise: "the benchmarks do not compile; the errors are above",
    },
  );
  const compiled = join(ROOT, "build", "bench", `${name}.js`);
  if (!existsSync(compiled))
    throw new ScriptError(`compiling bench/${name}.ts wrote no ${compiled}: is it part of tsconfig.bench.json?`);
  const { run } = await import(pathToFileURL(compiled).href);
  const exitCode = await run(args);
  return typeof exitCode === "number" ? exitCode : 0;
});
