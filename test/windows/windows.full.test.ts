// The package on Windows, as far as Debian's Wine runs it: the cross-built addon, mapped files, the conformance tests of
// the backend `cpu`, generation, the command line, the search for HIP, and the server. Clients connect from outside,
// because connections that Node makes fail in Wine.

import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { embeddedModelPath, loadModel } from "../../src/index.js";
import { installPackages, mayInstall } from "../support/debian-packages.js";
import { bundleTests, CONFORMANCE_FILES } from "./bundle-tests.js";
import { missingWindowsTool, WINDOWS_PACKAGES, windowsPath, WindowsInstall } from "./wine.js";

const LIMIT_MS = 900_000;

const absent = await missingWindowsTool();
const missing =
  absent !== undefined && process.platform === "linux" && mayInstall()
    ? await installPackages(WINDOWS_PACKAGES, missingWindowsTool)
    : absent;

describe.skipIf(missing !== undefined)(
  `Windows under Wine${missing === undefined ? "" : ` (skipped: there is no ${missing})`}`,
  () => {
    let windows: WindowsInstall;
    beforeAll(() => {
      windows = new WindowsInstall();
    }, LIMIT_MS);
    afterAll(() => windows?.[Symbol.dispose]());

    it("is Windows 10, and loads the addon of the platform's package", () => {
      const output = windows.program(`
        import { createRequire } from "node:module";
        import { release } from "node:os";
        const addon = createRequire(import.meta.url)("@rocmforge/cpu-win32-x64");
        const refused = (() => { try { addon.mapRegion(12345n, 10); } catch (error) { return error.code; } })();
        const bandwidth = await addon.measureReadBandwidth(1 << 24, 2);
        console.log(JSON.stringify({ platform: process.platform, release: release(), isas: addon.isas, refused, reads: bandwidth > 0 }));`);
      const result = JSON.parse(output) as Record<string, unknown>;
      expect(result).toMatchObject({ platform: "win32", refused: "INVALID", reads: true });
      expect(result["release"]).toMatch(/^10\./);
      expect(result["isas"]).toContain("portable");
    });

    it("maps files: views have the bytes that reads have, and the file is free after disposal", () => {
      const output = windows.program(`
        import { copyFileSync, existsSync, unlinkSync } from "node:fs";
        import { embeddedModelPath } from "rocmforge";
        import { GgufFile } from "rocmforge/gguf";
        copyFileSync(embeddedModelPath(), "copy.gguf");
        const file = await GgufFile.open("copy.gguf");
        let equal = 0;
        for (const tensor of file.tensors.values()) {
          file.adviseWillNeed(tensor);
          const bytes = new Uint8Array(tensor.sizeBytes);
          await file.readTensor(tensor, bytes);
          if (Buffer.from(bytes).equals(file.mappedView(tensor))) equal++;
        }
        const { mappingState: state, tensors } = file;
        file[Symbol.dispose]();
        // Without views, disposal unmaps at once; Windows keeps a mapped file from being deleted.
        copyFileSync(embeddedModelPath(), "other.gguf");
        const other = await GgufFile.open("other.gguf");
        other[Symbol.dispose]();
        unlinkSync("other.gguf");
        console.log(JSON.stringify({ state, equal, all: tensors.size, removed: !existsSync("other.gguf") }));`);
      const { state, equal, all, removed } = JSON.parse(output) as Record<string, unknown>;
      expect(state).toEqual({ mapped: true, reason: "mapped read-only" });
      expect(all).toBeGreaterThan(10);
      expect(equal).toBe(all);
      expect(removed).toBe(true);
    });

    it("generates the text that Linux generates, chats, and keeps to a schema", async () => {
      const output = windows.program(`
        import { embeddedModelPath, loadModel } from "rocmforge";
        const model = await loadModel(embeddedModelPath());
        const { text } = await model.generate("Once upon a time", { maxTokens: 16, temperature: 0 });
        const schema = { type: "object", properties: { hero: { enum: ["fox", "king"] } }, required: ["hero"], additionalProperties: false };
        const { object } = await model.chat([{ role: "user", content: "Who?" }], { maxTokens: 30, seed: 1, schema }).result;
        console.log(JSON.stringify({ backend: model.plan.backend.description.name, text, hero: object.hero }));
        await model.dispose();`);
      await using model = await loadModel(embeddedModelPath(), { backend: "cpu" });
      const { text } = await model.generate("Once upon a time", { maxTokens: 16, temperature: 0 });
      expect(JSON.parse(output)).toEqual({ backend: "cpu", text, hero: expect.stringMatching(/^(?:fox|king)$/) });
    });

    it("passes the conformance tests of the backend cpu", { timeout: LIMIT_MS }, async () => {
      const own = windows.file("node_modules/rocmforge");
      const { names } = await bundleTests(own, CONFORMANCE_FILES);
      const program = "node_modules/rocmforge/bundled-tests/run-tests.js";
      const { status, stdout, stderr } = windows.run([program, "report.json", ...names], {}, LIMIT_MS);
      if (status !== 0) throw new Error(`the tests ended with ${status}:\n${stdout}\n${stderr}`);
      const report = JSON.parse(readFileSync(windows.file("report.json"), "utf8")) as {
        readonly passed: number;
        readonly failures: readonly string[];
        readonly skips: readonly string[];
      };
      expect(report.failures).toEqual([]);
      expect(report.passed).toBeGreaterThan(1000);
      // Of the backends only those that cannot be here are skipped.
      expect(report.skips).toEqual([
        "(skipped: the emulator is built on Linux only)",
        expect.stringContaining("cuda"),
        expect.stringContaining("except on Linux with two processors"),
      ]);
    });

    it("runs the command line, and looks for HIP where Windows has it", () => {
      const command = (args: readonly string[], variables?: NodeJS.ProcessEnv) =>
        windows.run(["node_modules/rocmforge/dist/cli/main.js", ...args], variables);
      expect(command(["generate", "-p", "Once upon a time", "-n", "4", "--seed", "1"])).toMatchObject({
        status: 0,
        stdout: expect.stringContaining("Once upon a time"),
      });
      expect(command(["devices"]).stdout).toMatch(
        /hip: not available\n +because +.* is not installed \(none of .*amdhip64_7\.dll/,
      );
      mkdirSync(windows.file("sdk/bin"), { recursive: true });
      writeFileSync(
        windows.file("hip.c"),
        "__declspec(dllexport) int hipGetDeviceCount(int *count) { return *count = 0; }",
      );
      const library = windows.file("sdk/bin/amdhip64_6.dll");
      expect(spawnSync("x86_64-w64-mingw32-gcc-posix", ["-shared", windows.file("hip.c"), "-o", library]).status).toBe(
        0,
      );
      expect(command(["devices"], { HIP_PATH: windowsPath(windows.file("sdk")) }).stdout).toMatch(
        /amdhip64_6\.dll is an unsupported version: it has no .*hipRuntimeGetVersion/,
      );
    });

    it("serves the chat page and answers to clients", { timeout: 120_000 }, async () => {
      const port = await freePort();
      using server = windows.start(`
        import { embeddedModelPath } from "rocmforge";
        import { serve } from "rocmforge/server";
        await serve({ models: { fable: embeddedModelPath() }, port: ${port}, logLevel: "silent" });`);
      expect(server).toBeDefined();
      const url = `http://127.0.0.1:${port}`;
      await untilReady(`${url}/health`);
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ messages: [{ role: "user", content: "Who?" }], max_tokens: 8 }),
      });
      expect(response.status).toBe(200);
      expect(await response.json()).toMatchObject({ usage: { completion_tokens: 8 } });
      const page = await fetch(url, { headers: { accept: "text/html" } });
      expect(page.headers.get("content-type")).toContain("text/html");
    });
  },
);

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { readonly port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function untilReady(url: string): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const response = await fetch(url).catch(() => undefined);
    if (response?.ok === true) return;
    await wait(500);
  }
  throw new Error(`${url} did not answer`);
}
