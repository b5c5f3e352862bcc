// The versions of Node that the package supports: a core part of the tests under each, with the one addon that was built
// here (Node-API is the same for all), and the packed package with its prebuilt addon.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { InstalledTarballs, writeTarballs } from "./installed-tarballs.js";
import { nativeTests } from "./native/native-tests.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const LIMIT_MS = 900_000;
/** 20 is the oldest that `engines` allows. */
const VERSIONS = ["20", "22", "24"];
/** Every unit test, and those that need weights, threads, the addon, processes, HTTP or the file system. */
const CORE = [
  "src",
  "test/library/engine",
  "test/library/worker",
  "test/library/ai",
  "test/server/server.test.ts",
  "test/server/chat-completions.test.ts",
  "test/conformance/rows.test.ts",
  "test/cli/generate.test.ts",
  "test/cli/serve.test.ts",
  "test/hub/pull.test.ts",
];
const PROGRAM = `
import { embeddedModelPath, loadModel } from "rocmforge";
import { createRocmForge } from "rocmforge/ai";
import { serve } from "rocmforge/server";
const path = embeddedModelPath();
const model = await loadModel(path, { backend: "cpu" });
const { text } = await model.generate("Once upon a time", { maxTokens: 8, temperature: 0 });
const server = await serve({ models: { fable: model }, port: 0, logLevel: "silent" });
const chat = { messages: [{ role: "user", content: "Who?" }], max_tokens: 20, response_format: { type: "json_object" } };
const response = await fetch(server.url + "/v1/chat/completions", {
  method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(chat),
});
const { choices } = await response.json();
const metrics = await (await fetch(server.url + "/metrics")).text();
const page = await fetch(server.url + "/", { headers: { accept: "text/html" } });
await server.stop(1000);
await model.dispose();
const provider = createRocmForge({ models: { fable: path } });
const prompt = [{ role: "user", content: [{ type: "text", text: "Who?" }] }];
const { usage } = await provider("fable").doGenerate({ prompt, maxOutputTokens: 2 });
await provider.dispose();
console.log(JSON.stringify({ node: process.version, text, status: response.status, answer: choices[0].message.content.length > 0, page: page.status, metrics: metrics.includes("# TYPE"), tokens: usage.outputTokens.total }));
`;

function nodeOf(version: string): string {
  return join(ROOT, "test", "node-versions", "node_modules", `node-${version}`, "bin", "node");
}

const missing = VERSIONS.find((version) => !existsSync(nodeOf(version)));
const why = missing === undefined ? "" : ` (skipped: there is no Node ${missing} in test/node-versions)`;
const noCompiler = await nativeTests.missingTool("host");

describe.skipIf(missing !== undefined)(`each supported version of Node${why}`, () => {
  it.each(VERSIONS)("%s passes a core part of the tests", { timeout: LIMIT_MS }, (version) => {
    const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
    const environment = { ...process.env, ROCMFORGE_TEST_FULL: "" };
    const { status, stdout, stderr } = spawnSync(nodeOf(version), [vitest, "run", "--reporter=dot", ...CORE], {
      cwd: ROOT,
      env: environment,
      encoding: "utf8",
      timeout: LIMIT_MS,
      maxBuffer: 2 ** 26,
    });
    if (status !== 0) throw new Error(`vitest ended with ${status}:\n${stdout.slice(-6000)}\n${stderr.slice(-4000)}`);
    expect(Number(/Tests .*?(\d+) passed/.exec(stripColours(stdout))?.[1])).toBeGreaterThan(2000);
  });

  describe.skipIf(noCompiler !== undefined)(
    `runs the installed package${noCompiler === undefined ? "" : ` (skipped: there is no ${noCompiler})`}`,
    () => {
      const folder = new TemporaryFolder();
      let tarballs: readonly string[] = [];
      const texts = new Set<unknown>();
      beforeAll(() => {
        tarballs = writeTarballs(folder.path);
      }, LIMIT_MS);
      afterAll(() => folder[Symbol.dispose]());

      it.each(VERSIONS)(
        "on %s: generates, serves, chats and is an AI SDK provider",
        { timeout: LIMIT_MS },
        (version) => {
          using installed = new InstalledTarballs(nodeOf(version));
          const { status, output } = installed.install(tarballs);
          expect(output).not.toContain("building");
          expect(status).toBe(0);
          const result = JSON.parse(installed.node(PROGRAM)) as Record<string, unknown>;
          expect(result).toMatchObject({ status: 200, answer: true, page: 200, metrics: true, tokens: 2 });
          expect(result["node"]).toMatch(new RegExp(`^v${version}\\.`));
          texts.add(result["text"]);
          expect(texts.size).toBe(1);
        },
      );
    },
  );
});

function stripColours(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replace(/\u001B\[\d+m/g, "");
}
