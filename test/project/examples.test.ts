// The files under examples/ as a user runs them: against the installed package, type-checked strictly, with the embedded
// model. Beside them: what the package loads when it is imported, and that it can be required.

import { spawnSync } from "node:child_process";
import { appendFileSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PackedPackage, ROOT } from "./packed-package.js";

const MAX_EXAMPLE_LINES = 30;
/** Programs that do a whole task, with arguments and files of their own. */
const PROGRAMS = ["agent.ts", "batch-file.ts", "extract.ts", "rag.ts", "route-handler.ts"];
const MAX_PROGRAM_LINES = 90;
const SOURCES = readdirSync(join(ROOT, "examples")).filter((name) => name.endsWith(".ts"));
const EXAMPLES = SOURCES.filter((name) => !PROGRAMS.includes(name));
const COMPILER = join(ROOT, "node_modules", "typescript", "bin", "tsc");
const COMPILER_OPTIONS = ["--strict", "--module", "nodenext", "--target", "es2022"];
const EXPECTED: Readonly<Record<string, RegExp>> = {
  "batch.ts": /\n200 tales, \d+ tokens, \d+ tokens\/s in all\n$/,
  "embeddings.ts": /^50 embeddings of \d+ dimensions\nnearest: The raven sang at night\. \(1\.000\)\n$/,
  "tools.ts": /^weather\((?:Oslo|Rome)\) → (?:snow, -4|sun, 18) °C\n[^]*\S\s*\n$/,
  "typed-object.ts": /^.{2,12}, a (?:human|fox|raven) of \d\d? years, .+\n\d+ tokens\n$/,
};

const linesOf = (name: string): number =>
  readFileSync(join(ROOT, "examples", name), "utf8")
    .trimEnd()
    .split("\n").length;

const NOTES = {
  "castle.txt": "The king of the castle has three daughters. The youngest one wants to be a soldier.\n",
  "mill.txt":
    "The mill stands by the river. The miller grinds corn for the whole village.\n\nIn winter the wheel stands still.\n",
  "tower.txt":
    "The raven lives in the old tower.\n\nIt steals silver spoons from the kitchen\nand hides them under the roof.\n",
};

/** Writes down every module that is loaded. */
const RECORDER = `data:text/javascript,${encodeURIComponent(`
import { register } from "node:module";
register("data:text/javascript," + encodeURIComponent(\`
import { appendFileSync } from "node:fs";
export async function load(url, context, next) {
  appendFileSync("loaded.txt", url + "\\\\n");
  return next(url, context);
}\`));
`)}`;

/** Requests as a framework makes them, and what became of each. */
const ROUTE_REQUESTS = `
import { POST } from "./built/route-handler.js";

const post = (body, signal) =>
  POST(new Request("http://localhost/api/chat", { method: "POST", body, signal: signal ?? null }));
const ask = (content) => JSON.stringify({ messages: [{ role: "user", content }] });

const response = await post(ask("Tell me about the fox."));
let chunks = 0;
for await (const _ of response.body) chunks++;
const answered = { status: response.status, type: response.headers.get("content-type"), isStreamed: chunks > 1 };

const refused = [];
for (const body of ["no JSON", '{"messages": []}', ask("word ".repeat(3000))]) refused.push((await post(body)).status);

const left = await post(ask("Tell a long story."));
await left.body.cancel();

const controller = new AbortController();
const reader = (await post(ask("Tell a long story."), controller.signal)).body.getReader();
await reader.read();
controller.abort();
let aborted = "ended";
try {
  while (!(await reader.read()).done);
} catch (error) {
  aborted = error.name;
}
const model = await globalThis.rocmforgeModel;
while (model.statistics().running > 0) await new Promise((resolve) => setTimeout(resolve, 10));
console.log(JSON.stringify({ answered, refused, aborted, running: model.statistics().running }));
await model.dispose();
`;

describe("the installed package", { timeout: 120_000 }, () => {
  let project: PackedPackage;
  beforeAll(() => {
    project = new PackedPackage();
    cpSync(join(ROOT, "examples"), project.file("examples"), { recursive: true });
    const sources = SOURCES.map((name) => join("examples", name));
    project.node(COMPILER, ...COMPILER_OPTIONS, "--outDir", "built", ...sources);
  }, 120_000);
  afterAll(() => project[Symbol.dispose]());

  it.each(EXAMPLES)("runs %s", (name) => {
    expect(linesOf(name)).toBeLessThanOrEqual(MAX_EXAMPLE_LINES);
    expect(project.node(join("built", name.replace(/\.ts$/, ".js")))).toMatch(EXPECTED[name]);
  });

  it.each(PROGRAMS)("has %s as a short program that says how to run it", (name) => {
    expect(linesOf(name)).toBeLessThanOrEqual(MAX_PROGRAM_LINES);
    expect(readFileSync(join(ROOT, "examples", name), "utf8")).toMatch(/^(?:\/\/ .*\n)+\/\/ {3}(?:node|curl) /);
  });

  /** A program with arguments, and what it was given on standard input. */
  function run(name: string, args: readonly string[], input = "") {
    return spawnSync(process.execPath, [join("built", name), ...args], { cwd: project.path, encoding: "utf8", input });
  }

  function writeNotes(): string {
    mkdirSync(project.file("notes"), { recursive: true });
    for (const [name, text] of Object.entries(NOTES)) writeFileSync(project.file(join("notes", name)), text);
    return "notes";
  }

  it("finds the passage that a question is about, and cites it (rag.ts)", () => {
    const question = "It steals silver spoons from the kitchen and hides them under the roof?";
    const { status, stdout } = run("rag.js", [writeNotes(), question]);
    expect(status).toBe(0);
    expect(stdout).toMatch(/\n\nFound in 5 passages of 3 files:\n\[1\] tower\.txt:3 \(0\.\d{3}\)\n\[2\] /);
    expect(run("rag.js", ["notes"])).toMatchObject({ status: 1, stderr: expect.stringContaining("usage:") as string });
  });

  it("takes steps with tools until it answers (agent.ts)", () => {
    const { status, stdout } = run("agent.js", [writeNotes(), "Where does the raven live?"]);
    expect(status).toBe(0);
    const [steps, answer] = stdout.split("\n\n", 2);
    const calls = steps.split("\n").map((line) => /^\d\. (?<name>\w+)\((?<input>.*)\)$/.exec(line)?.groups ?? {});
    expect(calls.length).toBeGreaterThan(1);
    for (const { name, input } of calls) {
      expect(["list", "read", "answer"]).toContain(name);
      if (name === "read") expect(Object.keys(NOTES)).toContain((JSON.parse(input) as { name: string }).name);
    }
    const { name: last, input: said } = calls.at(-1) ?? {};
    expect(last).toBe("answer");
    expect((JSON.parse(said ?? "") as { text: string }).text.trim()).toContain(answer.trim().split("\n")[0]);
  });

  it("continues a batch that was cut off, and rejects a line that is no prompt (batch-file.ts)", () => {
    const prompts = Array.from({ length: 70 }, (_, id) => `${JSON.stringify({ id, prompt: `Tale ${id}: once` })}\n`);
    writeFileSync(project.file("prompts.jsonl"), prompts.join(""));
    const files = ["prompts.jsonl", "results.jsonl"];
    expect(run("batch-file.js", files).stdout).toBe("70 computed, 0 from earlier runs\n");
    const results = readFileSync(project.file("results.jsonl"), "utf8").trimEnd().split("\n");
    // As a killed process leaves it: some results are missing, and the last one is half written.
    writeFileSync(project.file("results.jsonl"), `${results.slice(0, 50).join("\n")}\n${results[50].slice(0, 20)}`);
    expect(run("batch-file.js", files).stdout).toBe("20 computed, 50 from earlier runs\n");
    const again = readFileSync(project.file("results.jsonl"), "utf8").trimEnd().split("\n");
    const parsed = again.map((line) => JSON.parse(line) as { id: number; text: string; tokens: number });
    expect(parsed.map(({ id }) => id).toSorted((left, right) => left - right)).toEqual(prompts.map((_, id) => id));
    expect(parsed.every(({ text, tokens }) => text !== "" && tokens > 0)).toBe(true);
    appendFileSync(project.file("prompts.jsonl"), "nonsense\n");
    expect(run("batch-file.js", files)).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/prompts\.jsonl:71: expected \{"id": …, "prompt": …\}, found nonsense/) as string,
    });
  });

  it("extracts a record that satisfies the schema from each document (extract.ts)", () => {
    const { status, stdout } = run("extract.js", [], "An order of two lamps from Oslo.\nA question.\n");
    expect(status).toBe(0);
    const letters = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(letters).toHaveLength(2);
    for (const { kind, town, items } of letters) {
      expect(["order", "return", "question"]).toContain(kind);
      expect(["Oslo", "Rome", null]).toContain(town);
      expect(Array.isArray(items)).toBe(true);
    }
  });

  it("streams to a Web request, stops when it is no longer read, and refuses what it cannot use (route-handler.ts)", () => {
    writeFileSync(project.file("requests.js"), ROUTE_REQUESTS);
    const outcomes = JSON.parse(project.node("requests.js")) as Record<string, unknown>;
    expect(outcomes).toEqual({
      answered: { status: 200, type: "text/plain; charset=utf-8", isStreamed: true },
      refused: [400, 400, 413],
      aborted: "ended",
      running: 0,
    });
  });

  it("loads no HTTP, chat or grammar code with the library itself", () => {
    writeFileSync(
      project.file("imports.js"),
      `import { embeddedModelPath, loadModel } from "rocmforge";
      const model = await loadModel(embeddedModelPath());
      await model.generate("Once", { maxTokens: 1 }).result;
      await model.dispose();`,
    );
    project.node("--import", RECORDER, "imports.js");
    const loaded = readFileSync(project.file("loaded.txt"), "utf8").split("\n");
    expect(loaded.some((url) => url.endsWith("/rocmforge/dist/index.js"))).toBe(true);
    const unwanted =
      /fastify|pino|zod|prom-client|light-my-request|jinja|\/dist\/(?:server|page|cli|grammar|completion|worker|ai)\/|\/dist\/chat\/(?!template\/chat-templates\.js$)|node:http/;
    expect(loaded.filter((url) => unwanted.test(url))).toEqual([]);
    // Two small files recognise names; what downloads models is loaded for a name only.
    const hub = loaded.filter((url) => url.includes("/dist/hub/")).map((url) => url.slice(url.lastIndexOf("/") + 1));
    expect(hub.toSorted()).toEqual(["model-name.js", "model-scheme.js"]);
  });

  it("offers its models to the AI SDK without loading the SDK, which is not installed, or HTTP code", () => {
    writeFileSync(
      project.file("provider.js"),
      `import { embeddedModelPath } from "rocmforge";
      import { createRocmForge } from "rocmforge/ai";
      const provider = createRocmForge({ models: { story: embeddedModelPath() } });
      const prompt = [{ role: "user", content: [{ type: "text", text: "Who?" }] }];
      const { usage } = await provider("story").doGenerate({ prompt, maxOutputTokens: 1 });
      console.log(usage.outputTokens.total);
      await provider.dispose();`,
    );
    rmSync(project.file("loaded.txt"), { force: true });
    expect(project.node("--import", RECORDER, "provider.js")).toBe("1\n");
    const loaded = readFileSync(project.file("loaded.txt"), "utf8").split("\n");
    expect(loaded.some((url) => url.endsWith("/rocmforge/dist/ai/index.js"))).toBe(true);
    const unwanted = /@ai-sdk|node_modules\/ai\/|fastify|pino|prom-client|\/dist\/(?:server|cli)\/|node:http/;
    expect(loaded.filter((url) => unwanted.test(url))).toEqual([]);
  });

  const canRequire = "require_module" in process.features && process.features.require_module === true;
  it.skipIf(!canRequire)(
    `can be required${canRequire ? "" : " (skipped: this Node cannot require ES modules)"}`,
    () => {
      const program = `
      const { loadModel } = require("rocmforge");
      const { GgufFile } = require("rocmforge/gguf");
      const { ExecutionPlan } = require("rocmforge/internals");
      const { serve } = require("rocmforge/server");
      const { createRocmForge } = require("rocmforge/ai");
      console.log([loadModel, GgufFile, ExecutionPlan, serve, createRocmForge].map((each) => typeof each).join(" "));`;
      writeFileSync(project.file("required.cjs"), program);
      expect(project.node("required.cjs")).toBe("function function function function function\n");
    },
  );
});
