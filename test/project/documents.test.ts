// Keeps pages in step with the code: environment variables and warnings, the types each backend supports;
// site.test.ts checks their links.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { ARCHITECTURES } from "../../src/architectures/registry.js";
import type { Backend, KvCacheOptions, KvCacheType, Support } from "../../src/backends/contract.js";
import { CpuBackend } from "../../src/backends/cpu/backend.js";
import { supportsGpuKvCache } from "../../src/backends/gpu/memory/kv-layout.js";
import { supportsOperation } from "../../src/backends/gpu/lowering/operation-table.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import { type ModelShape, SHAPES } from "../../src/cli/synth/shape.js";
import { shapeProgram } from "../../src/cli/synth/shape-weights.js";
import { weightsOf } from "../../src/graph/operation.js";
import type { Program } from "../../src/graph/program.js";
import { layoutByName, SUPPORTED, type SupportedLayout } from "../../src/quant/layout.js";
import type { TensorDescriptor } from "../../src/tensor/descriptor.js";
import { PRE_TOKENIZER_NAMES, preTokenizerByName } from "../../src/tokenizer/pre-tokenizers.js";
import { familyFile, type FamilyShape } from "../conformance/models/family-model.js";
import { FAMILY_NAMES, familyCase } from "../conformance/models/family-shapes.js";

type Supports = Backend["supports"];
type SupportsCache = Backend["supportsKvCache"];

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const read = (name: string): string => readFileSync(join(ROOT, name), "utf8");

/** The cells of every table row under a heading, without the head and the rule. */
function tableUnder(page: string, heading: string): readonly (readonly string[])[] {
  const section =
    read(page)
      .split(/^## /m)
      .find((text) => text.startsWith(heading)) ?? "";
  const rows = section.split("\n").filter((line) => line.startsWith("| "));
  return rows.slice(2).map((line) => line.slice(2, -2).split(" | "));
}

/** Every document of the package. */
const PAGES: readonly string[] = [
  "README.md",
  "ARCHITECTURE.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join("docs", name)),
];

describe("docs/environment.md", () => {
  const NAME = /\bROCMFORGE_[A-Z0-9_]*[A-Z0-9]\b/g;
  /** Names of the preprocessor, which users do not set. */
  const COMPILE_TIME = /^ROCMFORGE_(?:HAS_|EMULATOR$|EMULATOR_FRAMES$)/;

  function namesIn(folder: string, isWanted: (name: string) => boolean): ReadonlySet<string> {
    const files = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true });
    const texts = files
      .filter((file) => file.isFile() && isWanted(file.name))
      .map((file) => readFileSync(join(file.parentPath, file.name), "utf8"));
    return new Set(texts.flatMap((text) => text.match(NAME) ?? []).filter((name) => !COMPILE_TIME.test(name)));
  }

  const inSource = namesIn("src", (name) => name.endsWith(".ts") && !name.endsWith(".test.ts"));
  const inScripts = namesIn("scripts", (name) => name.endsWith(".mjs"));
  const inTests = namesIn("test", (name) => /\.(?:ts|cpp|h)$/.test(name));
  const listed = (heading: string): readonly string[] =>
    tableUnder("docs/environment.md", heading).map(([name]) => name.replaceAll("`", ""));
  const [forAll, warnings, forWork] = ["Users", "Warnings", "Development of ROCmForge"].map(listed);

  it("finds names to compare", () => {
    expect([...inSource]).toContain("ROCMFORGE_KERNEL_CACHE");
    expect([...inTests]).toContain("ROCMFORGE_EMULATOR_WAVE");
  });

  it("lists every variable and every warning that the package knows", () => {
    const known = new Set([...forAll, ...warnings]);
    expect([...inSource].filter((name) => !known.has(name))).toEqual([]);
  });

  it("lists every variable of scripts and tests", () => {
    const known = new Set([...forAll, ...warnings, ...forWork]);
    expect([...inScripts, ...inTests].filter((name) => !known.has(name))).toEqual([]);
  });

  it("lists every variable that a document mentions", () => {
    const known = new Set([...forAll, ...warnings, ...forWork]);
    const mentioned = PAGES.flatMap((page) => (read(page).match(NAME) ?? []).map((name) => ({ page, name })));
    expect(mentioned).toContainEqual({ page: "README.md", name: "ROCMFORGE_GPU_BLAS" });
    expect(mentioned.filter(({ name }) => !known.has(name))).toEqual([]);
  });

  it("lists no variable that no code reads", () => {
    expect([...forAll, ...warnings].filter((name) => !inSource.has(name) && !inScripts.has(name))).toEqual([]);
    expect(forWork.filter((name) => !inTests.has(name) && !inScripts.has(name))).toEqual([]);
  });
});

describe("docs/support.md", () => {
  const OPERATION = { kind: "matmul", input: 0, weight: 0, out: 1 } as const;
  const WIDTH = 512;
  const ROWS = 4;
  const KV: Omit<KvCacheOptions, "type"> = {
    layers: 1,
    kvHeads: 1,
    keyWidth: 64,
    valueWidth: 64,
    blocks: 1,
    blockTokens: 16,
  };
  const reference: Backend = new ReferenceBackend();

  function descriptor(layout: SupportedLayout) {
    const elements = WIDTH * ROWS;
    return {
      name: "weight",
      layout,
      shape: [WIDTH, ROWS],
      elements,
      sizeBytes: (elements / layout.blockElements) * layout.blockBytes,
    };
  }

  const yesOrNo = (support: Support): string => (support === true ? "yes" : "no");

  /** Why the backend cannot run a graph whose weights are F32, or true. */
  function runs({ operations, weights, kv }: Program, supports: Supports, supportsCache: SupportsCache): Support {
    const layout = layoutByName("F32");
    const descriptors = weights.map(({ name, shape }): TensorDescriptor => {
      const elements = shape.reduce((total, length) => total * length, 1);
      return { name, layout, shape, elements, sizeBytes: 4 * elements };
    });
    for (const operation of operations) {
      const support = supports(
        operation,
        weightsOf(operation).map((id) => descriptors[id]),
      );
      if (support !== true) return support;
    }
    return supportsCache({ ...kv, type: "f16", blocks: 1, blockTokens: 16 });
  }

  /** Graphs of small random shapes, and of the shapes of published models. */
  function graphsOf(architecture: string): readonly Program[] {
    const small = FAMILY_NAMES.flatMap((family) => [0, 1, 2, 3].map((number) => familyCase(family, number).shape));
    const published: readonly FamilyShape[] = Object.values(SHAPES).map((shape) => {
      const { vocabulary: _, ...rest }: ModelShape = shape;
      return rest;
    });
    return [...small, ...published]
      .filter((shape) => shape.architecture === architecture)
      .map((drawn) => {
        const { shape, metadata } = familyFile(drawn);
        return shapeProgram(shape, metadata);
      });
  }

  it("lists every family with what each backend answers for its graphs", () => {
    const backends: readonly (readonly [Supports, SupportsCache])[] = [
      [(...asked) => reference.supports(...asked), (options) => reference.supportsKvCache(options)],
      [(operation) => CpuBackend.prototype.supports(operation), CpuBackend.prototype.supportsKvCache],
      [supportsOperation, supportsGpuKvCache],
    ];
    const answers = ARCHITECTURES.map(({ name }) => {
      const graphs = graphsOf(name);
      expect(graphs.length).toBeGreaterThan(3);
      const columns = backends.map((backend) => graphs.map((graph) => runs(graph, ...backend)));
      return [name, ...columns.map((column) => (column.every((support) => support === true) ? "yes" : "no"))];
    });
    const listed = tableUnder("docs/support.md", "Families").map(([name, _models, ...columns]) => [name, ...columns]);
    expect(listed.toSorted()).toEqual(answers.toSorted());
  });

  it("lists every type with what each backend answers", () => {
    const answers = SUPPORTED.map((layout) => [
      layout.name,
      yesOrNo(reference.supports(OPERATION, [descriptor(layout)])),
      // The same for every addon, so none is loaded.
      yesOrNo(CpuBackend.prototype.supports(OPERATION)),
      yesOrNo(supportsOperation(OPERATION, [descriptor(layout)])),
    ]);
    expect(tableUnder("docs/support.md", "Weights").toSorted()).toEqual(answers.toSorted());
  });

  it("lists every type of KV cache", () => {
    const types = ["f16", "f32", "q8_0"] satisfies readonly KvCacheType[];
    const answers = types.map((type) => {
      const options = { ...KV, type };
      return [
        type,
        yesOrNo(reference.supportsKvCache(options)),
        yesOrNo(CpuBackend.prototype.supportsKvCache(options)),
        yesOrNo(supportsGpuKvCache(options)),
      ];
    });
    expect(tableUnder("docs/support.md", "The KV cache")).toEqual(answers);
  });

  it("lists every pre-tokenizer, in one row those that split alike", () => {
    const rows = new Map<unknown, string[]>();
    for (const name of PRE_TOKENIZER_NAMES) {
      const { splits } = preTokenizerByName(name);
      rows.set(splits, [...(rows.get(splits) ?? []), name]);
    }
    const listed = tableUnder("docs/support.md", "Pre-tokenizers").map(([name, also]) =>
      also === "–" ? [name] : [name, ...also.split(", ")],
    );
    expect(listed).toEqual([...rows.values()]);
  });
});
