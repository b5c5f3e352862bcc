// The judgement of one import, case by case; rocmforge-plugin.test.ts proves that oxlint asks for it.

import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ARCHITECTURES } from "../src/architectures/registry.js";
import { ARCHITECTURE_NAMES, judgeImport, LAYERS, partOf } from "./layers.js";

const ROOT = new URL("../", import.meta.url);
const STATIC = { dynamic: false };
const DYNAMIC = { dynamic: true };

describe("judgeImport", () => {
  it.each([
    ["src/lifetime.ts", "src/errors.ts"],
    ["src/gguf/reader.ts", "src/quant/layout.ts"],
    ["src/gguf/reader.ts", "src/gguf/limits.ts"],
    ["src/backends/contract.ts", "src/graph/program.ts"],
    ["src/loader/gguf-loader.ts", "src/backends/contract.ts"],
    ["src/architectures/families/llama.ts", "src/graph/builder.ts"],
    ["src/backends/cpu/backend.ts", "src/backends/contract.ts"],
    ["src/backends/cpu/native-bindings.ts", "native/cpu/index.ts"],
    ["src/backends/gpu/drivers/hip/ffi.ts", "src/backends/gpu/drivers/shared/driver.ts"],
    ["src/engine/engine.ts", "src/backends/registry.ts"],
    ["src/plan/execution-plan.ts", "src/loader/gguf-loader.ts"],
    ["src/server/server.ts", "src/index.ts"],
    ["src/ai/provider.ts", "src/model/load-model.ts"],
    ["src/quant/quant.test.ts", "test/fixtures/golden.ts"],
    ["src/gguf/testing/model.ts", "src/engine/engine.ts"],
    ["test/conformance/suite.ts", "src/cli/main.ts"],
  ])("allows %s to import %s", (from, to) => {
    expect(judgeImport(from, to, STATIC)).toBeUndefined();
  });

  it.each([
    ["src/errors.ts", "src/gguf/reader.ts"],
    ["src/gguf/reader.ts", "src/graph/program.ts"],
    ["src/graph/program.ts", "src/backends/contract.ts"],
    ["src/backends/contract.ts", "src/loader/gguf-loader.ts"],
    ["src/backends/contract.ts", "src/backends/registry.ts"],
    ["src/loader/gguf-loader.ts", "src/plan/execution-plan.ts"],
    ["src/plan/execution-plan.ts", "src/kv-cache/block-pool.ts"],
    ["src/tokenizer/bpe.ts", "src/engine/engine.ts"],
    ["src/scheduler/queue.ts", "src/engine/engine.ts"],
    ["src/engine/engine.ts", "src/index.ts"],
    ["src/engine/engine.ts", "src/cli/main.ts"],
  ])("rejects the upward import of %s from %s", (from, to) => {
    expect(judgeImport(from, to, STATIC)).toMatch(/is above it/);
    expect(judgeImport(from, to, DYNAMIC)).toMatch(/is above it/);
  });

  it.each([
    ["src/loader/gguf-loader.ts", "src/architectures/families/llama.ts"],
    ["src/architectures/families/llama.ts", "src/loader/gguf-loader.ts"],
    ["src/backends/cpu/backend.ts", "src/loader/gguf-loader.ts"],
    ["src/backends/registry.ts", "src/architectures/registry.ts"],
    ["src/architectures/families/llama.ts", "src/backends/registry.ts"],
    ["src/loader/gguf-loader.ts", "src/backends/registry.ts"],
    ["src/server/server.ts", "src/cli/main.ts"],
    ["src/cli/main.ts", "src/server/server.ts"],
    ["src/ai/provider.ts", "src/server/index.ts"],
    ["src/kv-cache/block-pool.ts", "src/sampler/chain.ts"],
    ["src/chat/template.ts", "src/tokenizer/bpe.ts"],
  ])("rejects strangers: %s and %s", (from, to) => {
    expect(judgeImport(from, to, STATIC)).toMatch(/must not know each other/);
  });

  it.each([
    ["src/engine/engine.ts", "src/backends/reference/backend.ts"],
    ["src/index.ts", "src/backends/cpu/backend.ts"],
    ["src/backends/cpu/backend.ts", "src/backends/reference/kernels.ts"],
    ["src/plan/execution-plan.ts", "src/backends/gpu/drivers/hip/ffi.ts"],
  ])("rejects a concrete backend named by %s: %s", (from, to) => {
    expect(judgeImport(from, to, STATIC)).toMatch(/one concrete backend/);
    expect(judgeImport(from, to, DYNAMIC)).toMatch(/one concrete backend/);
  });

  it("lets the registry name a concrete backend by import() alone", () => {
    const pair = ["src/backends/registry.ts", "src/backends/reference/backend.ts"] as const;
    expect(judgeImport(...pair, DYNAMIC)).toBeUndefined();
    expect(judgeImport(...pair, STATIC)).toMatch(/by dynamic import\(\)/);
  });

  it("rejects an import from outside src/, of a test, and of a part without a place", () => {
    expect(judgeImport("src/gguf/reader.ts", "bench/open.ts", STATIC)).toMatch(/outside src/);
    expect(judgeImport("src/gguf/reader.ts", "src/gguf/testing/model.ts", STATIC)).toMatch(/for tests/);
    expect(judgeImport("src/gguf/reader.ts", "src/drawer/things.ts", STATIC)).toMatch(/LAYERS/);
  });
});

describe("the tables", () => {
  it("give every folder and file under src/ a place", () => {
    const parts = readdirSync(new URL("src/", ROOT))
      .filter((name) => !name.endsWith(".test.ts"))
      .map((name) => partOf(`src/${name}`));
    const placed = new Set(LAYERS.flat());
    expect(parts.filter((part) => !placed.has(part as string))).toEqual([]);
  });

  it("name every architecture that has a descriptor", () => {
    const names = ARCHITECTURES.map(({ name }) => name);
    expect(names).toContain("llama");
    expect(names.filter((name) => !ARCHITECTURE_NAMES.has(name))).toEqual([]);
  });
});
