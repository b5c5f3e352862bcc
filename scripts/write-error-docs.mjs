// Writes docs/errors.md from ERROR_CODES; run after adding a code. test/project/error-codes.test.ts compares the two.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { bootstrap, ROOT } from "./bootstrap.mjs";
import { main, say } from "./tool.mjs";

const HEAD = `# Error codes

Every error that ROCmForge throws on purpose is a \`RocmForgeError\` with a \`code\` from this list, \`details\` and, where
another error led to it, a \`cause\`. The message says where, what was expected, what was found and what to do. A code's
prefix tells its class: \`GGUF_\` is a \`GgufError\`, which also has \`field\`, \`expected\` and \`found\`. Codes are stable;
messages are not.

| code | when |
| --- | --- |
`;

await main(async () => {
  await bootstrap();
  const { ERROR_CODES } = await import(pathToFileURL(join(ROOT, "dist", "errors.js")).href);
  const rows = Object.entries(ERROR_CODES).map(([code, sentence]) => `| \`${code}\` | ${sentence} |\n`);
  writeFileSync(join(ROOT, "docs", "errors.md"), HEAD + rows.join(""));
  say(`docs/errors.md lists ${rows.length} codes`);
});
