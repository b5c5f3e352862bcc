// `npm run format` formats every source file, TypeScript and JavaScript with oxfmt, C++ with clang-format;
// `npm run format -- --check` changes nothing and fails if a file is not formatted. Styles: .oxfmtrc.json, .clang-format.

import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { bootstrap, ROOT } from "./bootstrap.mjs";
import { main, runProgram } from "./tool.mjs";

const CPP_FOLDERS = ["kernels", "native", "test"];
const CPP_FILE = /\.(?:h|hip|cpp|cc|c)$/;
const SKIPPED_FOLDERS = new Set(["node_modules", "build", "fixtures"]);

async function cppFiles(folder) {
  const entries = await readdir(join(ROOT, folder), { withFileTypes: true });
  const nested = entries.map((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return SKIPPED_FOLDERS.has(entry.name) ? [] : cppFiles(path);
    return CPP_FILE.test(entry.name) ? [path] : [];
  });
  return (await Promise.all(nested)).flat().toSorted();
}

/** @returns {Promise<{ what: string, args: string[] }[]>} one command line for Node per formatter */
export async function formatters({ check }) {
  const tool = (...path) => join(ROOT, "node_modules", ...path);
  return [
    { what: "formatting (oxfmt)", args: [tool("oxfmt", "bin", "oxfmt"), ...(check ? ["--check"] : [])] },
    {
      what: "formatting C++ (clang-format)",
      args: [
        tool("clang-format-node", "build", "cli.js"),
        ...(check ? ["--dry-run", "--Werror"] : ["-i"]),
        ...(await Promise.all(CPP_FOLDERS.map(cppFiles))).flat(),
      ],
    },
  ];
}

if (
  process.argv[1] !== undefined &&
  existsSync(process.argv[1]) &&
  import.meta.url === pathToFileURL(process.argv[1]).href
) {
  await main(async (args) => {
    await bootstrap({ persistent: true });
    let failed = 0;
    for (const { args: line } of await formatters({ check: args.includes("--check") })) {
      const { exitCode } = await runProgram(process.execPath, line, { cwd: ROOT, show: true });
      if (exitCode !== 0) failed++;
    }
    return failed === 0 ? 0 : 1;
  });
}
