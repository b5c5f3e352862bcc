// The example with a web page, as a user runs it: the installed package, the real `ai` package, TypeScript as Node 22 runs
// it. The page's own script runs too, on the few elements that it touches.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PackedPackage, ROOT } from "../../project/packed-package.js";
import { packageFile } from "../../server/clients/session.js";
import { sdkNode, sdkUnavailableReason } from "./sdk-node.js";

const COMPILER = join(ROOT, "node_modules", "typescript", "bin", "tsc");
const COMPILER_OPTIONS = ["--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "--noEmit"];
const skipped = sdkUnavailableReason === undefined ? "" : ` (skipped: ${sdkUnavailableReason})`;

describe.skipIf(sdkUnavailableReason !== undefined)(`examples/ai-sdk${skipped}`, () => {
  let project: PackedPackage;
  let server: ChildProcess;
  let url: string;

  beforeAll(async () => {
    project = new PackedPackage();
    cpSync(join(ROOT, "examples", "ai-sdk"), project.file("."), { recursive: true });
    mkdirSync(project.file("node_modules/@ai-sdk"));
    symlinkSync(packageFile("ai-7"), project.file("node_modules/ai"));
    symlinkSync(
      packageFile("ai-7", "node_modules", "@ai-sdk", "provider"),
      project.file("node_modules/@ai-sdk/provider"),
    );
    server = spawn(
      sdkNode,
      ["--no-warnings", "server.ts", "node_modules/rocmforge/models/fable-10m-Q4_K_M.gguf", "0"],
      {
        cwd: project.path,
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    const [line] = (await once(createInterface({ input: server.stdout as NodeJS.ReadableStream }), "line")) as [string];
    url = line;
  }, 120_000);

  afterAll(async () => {
    if (server.exitCode === null) {
      server.kill("SIGTERM");
      await once(server, "exit");
    }
    project[Symbol.dispose]();
  });

  test("is valid TypeScript with the types of both packages, and so are the samples of the documents", () => {
    const samples = ["docs/ai-sdk.md", "README.md"].flatMap((page) =>
      [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```ts\n(?<text>[^]*?)^```$/gm)]
        .map(({ groups }) => groups?.["text"] ?? "")
        .filter((text) => text.includes("rocmforge/ai")),
    );
    expect(samples).toHaveLength(3);
    const files = samples.map((text, index) => {
      const name = `sample-${index}.ts`;
      writeFileSync(project.file(name), text);
      return name;
    });
    execFileSync(process.execPath, [COMPILER, ...COMPILER_OPTIONS, "server.ts", ...files], {
      cwd: project.path,
      stdio: "inherit",
    });
  });

  test("streams a reply in parts as plain text", async () => {
    const body = JSON.stringify([{ role: "user", content: "Who is the hero?" }]);
    const response = await fetch(`${url}/chat`, { method: "POST", body });
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/plain; charset=utf-8"]);
    const chunks = [];
    for await (const chunk of response.body ?? []) chunks.push(Buffer.from(chunk));
    expect(chunks.length).toBeGreaterThan(3);
    expect(Buffer.concat(chunks).toString().trim()).not.toBe("");
  });

  test("refuses what is no list of messages, and goes on", async () => {
    expect((await fetch(`${url}/chat`, { method: "POST", body: "{" })).status).toBe(400);
    expect((await fetch(`${url}/other`)).status).toBe(404);
  });

  test("the page sends the conversation, shows the reply as it comes, and stops it", async () => {
    const page = new FakePage(await (await fetch(url)).text(), url);
    await page.submit("Who is the hero?");
    expect(page.shown).toMatchObject([
      { className: "user", textContent: "Who is the hero?" },
      { className: "assistant", textContent: expect.stringMatching(/\w/) as string },
    ]);
    const second = page.submit("And then?");
    await expect.poll(() => page.shown[3]?.textContent ?? "", { timeout: 30_000 }).not.toBe("");
    page.stop.onclick?.();
    await second;
    expect(page.stop.disabled).toBe(true);
    expect(page.sent.map((body) => (JSON.parse(body) as { role: string }[]).map(({ role }) => role))).toEqual([
      ["user"],
      ["user", "assistant", "user"],
    ]);
  });

  test("stops by a signal", async () => {
    server.kill("SIGTERM");
    expect(await once(server, "exit")).toEqual([0, null]);
  });
});

/** An element, as far as the page's script uses one. */
interface FakeElement {
  className: string;
  textContent: string;
  disabled: boolean;
  onclick?: () => void;
}

type SubmitListener = (event: { preventDefault(): void }) => Promise<void>;

/** The page's script with a document that holds what it shows. */
class FakePage {
  readonly shown: FakeElement[] = [];
  readonly sent: string[] = [];
  readonly stop: FakeElement = { className: "", textContent: "", disabled: true };
  #submit: SubmitListener | undefined;
  #message = "";

  constructor(html: string, url: string) {
    const script = /<script type="module">(?<text>[^]*)<\/script>/.exec(html)?.groups?.["text"] ?? "";
    const form = {
      addEventListener: (_: string, listener: SubmitListener) => void (this.#submit = listener),
      elements: { namedItem: () => ({ value: this.#message }) },
      reset: () => {},
    };
    const log = { append: (element: FakeElement) => void this.shown.push(element) };
    const elements: Readonly<Record<string, object>> = { form, "#stop": this.stop, "#log": log };
    runInNewContext(script, {
      document: {
        querySelector: (selector: string) => elements[selector],
        createElement: () => ({ className: "", textContent: "", disabled: false }),
      },
      fetch: (path: string, options: RequestInit) => {
        this.sent.push(String(options.body));
        return fetch(url + path, options);
      },
      AbortController,
      TextDecoderStream,
    });
  }

  async submit(message: string): Promise<void> {
    this.#message = message;
    await this.#submit?.({ preventDefault() {} });
  }
}
