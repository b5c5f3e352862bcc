// Which drivers are started before anything else is, by the command line, and how little is loaded before that.

import { readFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { startDriverFor } from "./early-driver-start.js";

const started: string[] = [];
const present = new Set<string>();
const usable = new Set<string>();
vi.mock("../backends/gpu/drivers/shared/probe.js", () => ({
  absentDriver: (kind: string) => (present.has(kind) ? undefined : { reason: "none", remedy: "none", expected: true }),
}));
vi.mock("../backends/gpu/drivers/early-start.js", () => ({
  startDriverEarly: (kind: string) => {
    if (!usable.has(kind)) return undefined;
    started.push(kind);
    // Nobody waits for it.
    return new Promise(() => {});
  },
}));

beforeEach(() => {
  started.length = 0;
  for (const kind of ["hip", "cuda"]) {
    present.add(kind);
    usable.add(kind);
  }
});

async function startedBy(...args: string[]): Promise<readonly string[]> {
  started.length = 0;
  await startDriverFor(args);
  return [...started];
}

describe("a driver is started ahead", () => {
  it("that the command line names, the last one given", async () => {
    expect(await startedBy("generate", "--backend", "hip", "-p", "x", "--backend=cuda")).toEqual(["cuda"]);
    expect(await startedBy("serve", "-m", "model.gguf", "--backend", "cuda")).toEqual(["cuda"]);
  });

  it("that auto would take: one, the first that is there and can be started", async () => {
    expect(await startedBy("bench")).toEqual(["hip"]);
    usable.delete("hip");
    expect(await startedBy("perplexity", "--backend", "auto")).toEqual(["cuda"]);
    present.delete("cuda");
    expect(await startedBy("generate")).toEqual([]);
  });

  it.each([
    [["generate", "--backend", "cpu"]],
    [["generate", "--backend=reference"]],
    [["generate", "--backend"]],
    [["generate", "--backend", "cudaa"]],
    [["generate", "--help"]],
    [["inspect", "model.gguf"]],
    [["--version"]],
    [[]],
  ])("not by %j", async (args) => {
    expect(await startedBy(...args)).toEqual([]);
  });

  it("before the command line itself is loaded", () => {
    const main = "cli/main.ts";
    expect(loadedWith(main)).toEqual(["cli/early-driver-start.ts", main]);
    const source = readFileSync(new URL("main.ts", import.meta.url), "utf8");
    const startedAt = source.indexOf("await startDriverFor(");
    expect(startedAt).toBeGreaterThan(-1);
    expect(startedAt).toBeLessThan(source.indexOf('import("./run.js")'));
    // Every file costs about half a millisecond before the driver can start.
    expect(loadedWith("backends/registry.ts")).toEqual([
      "backends/registry.ts",
      "backends/unavailable.ts",
      "errors.ts",
      "nearest.ts",
      "options.ts",
    ]);
    const drivers = [
      "cuda/ffi.ts",
      "early-start.ts",
      "hip/ffi.ts",
      "hip/libraries.ts",
      "hip/rocm-folders.ts",
      "hip/windows-folders.ts",
      "shared/ffi.ts",
      "shared/library-folders.ts",
      "shared/probe.ts",
    ];
    expect(loadedWith("backends/gpu/drivers/early-start.ts")).toEqual(
      drivers.map((name) => `backends/gpu/drivers/${name}`),
    );
  });
});

const SOURCES = fileURLToPath(new URL("..", import.meta.url));

/** A file with all that it imports at once, types aside. */
function loadedWith(name: string): readonly string[] {
  const found = new Set<string>();
  const load = (path: string): void => {
    if (found.has(path)) return;
    found.add(path);
    for (const [, clause, imported] of readFileSync(path, "utf8").matchAll(
      /^import (?!type )(?:([^"]*?) from )?"(\.[^"]*)";$/gm,
    )) {
      const typesOnly = /^\{(?:\s*type [^,}]*,?)*\s*\}$/.test(clause ?? "");
      if (!typesOnly) load(resolve(dirname(path), imported.replace(/\.js$/, ".ts")));
    }
  };
  load(resolve(SOURCES, name));
  return [...found].map((path) => relative(SOURCES, path)).sort();
}
