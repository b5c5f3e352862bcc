// `rocmforge plan`: layers, operations and memory of a model, without loading any of it.

import { describe, expect, it } from "vitest";
import { str, u32 } from "../../src/gguf/entry.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { randomModel } from "../conformance/models/random-model.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { fixture, rocmforge, SMALL_MODEL } from "./command-line.js";

interface PlanJson {
  readonly architecture: string;
  readonly contextTokens: number;
  readonly parameters: { readonly layers: readonly unknown[] };
  readonly layers: readonly {
    readonly name: string;
    readonly layer?: number;
    readonly operations: readonly ({ readonly kind: string } & Readonly<Record<string, unknown>>)[];
    readonly weights: readonly {
      readonly name: string;
      readonly type: string;
      readonly shape: readonly number[];
      readonly sizeBytes: number;
    }[];
  }[];
  readonly memory: Readonly<
    Record<"weightBytes" | "residentWeightBytes" | "kvCacheBytes" | "scratchBytes" | "totalBytes", number>
  > & { readonly fits: boolean };
  readonly loadedTensors: number;
  readonly program?: { readonly operations: readonly unknown[] };
}

async function planJson(...args: readonly string[]): Promise<PlanJson> {
  const finished = await rocmforge(["plan", "-m", SMALL_MODEL, "--json", ...args]);
  expect(finished).toMatchObject({ status: 0, stderr: "" });
  return JSON.parse(finished.stdout) as PlanJson;
}

describe("as data", () => {
  it("has every layer with operations and weights by name", async () => {
    const { architecture, parameters, layers, loadedTensors, program } = await planJson();
    expect(architecture).toBe("qwen2");
    const numbered = layers.filter(({ layer }) => layer !== undefined);
    expect(numbered.map(({ layer }) => layer)).toEqual(
      Array.from({ length: parameters.layers.length }, (_, index) => index),
    );
    const [first] = numbered;
    expect(first.operations.map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(["rms-norm", "matmul", "rope", "kv-write", "attention", "glu", "add"]),
    );
    expect(first.operations).toContainEqual(
      expect.objectContaining({
        kind: "matmul",
        weight: "blk.0.attn_q.weight",
        bias: "blk.0.attn_q.bias",
        out: expect.stringMatching(/^blk\.0\.attn_q#\d+$/) as string,
      }),
    );
    expect(first.weights.find(({ name }) => name === "blk.0.attn_q.bias")).toMatchObject({ type: "F32" });
    for (const { shape, sizeBytes } of first.weights) expect(sizeBytes).toBeGreaterThan(shape.length);
    expect(loadedTensors).toBe(0);
    expect(program).toBeUndefined();
  });

  it("counts memory that grows with the context", async () => {
    const [small, large] = await Promise.all([planJson("--ctx", "256"), planJson("--ctx", "512")]);
    expect(large.memory.kvCacheBytes).toBe(2 * small.memory.kvCacheBytes);
    expect(large.memory.weightBytes).toBe(small.memory.weightBytes);
    const { totalBytes, residentWeightBytes, kvCacheBytes, scratchBytes, fits } = small.memory;
    expect(totalBytes).toBe(residentWeightBytes + kvCacheBytes + scratchBytes);
    expect(fits).toBe(true);
    expect(small.contextTokens).toBe(256);
  });

  it("says when a context does not fit instead of failing", async () => {
    expect((await planJson("--ctx", "16777216")).memory.fits).toBe(false);
  });

  it("has the program with --dump", async () => {
    const { program, layers } = await planJson("--dump");
    expect(program?.operations).toHaveLength(layers.reduce((total, { operations }) => total + operations.length, 0));
  });
});

describe("as text", () => {
  it("folds layers that do the same", async () => {
    const { status, stdout, stderr } = await rocmforge(["plan", "-m", fixture("models/fable-10m-Q8_0.gguf")]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout.match(/^layers? .*$/gm)).toEqual([
      expect.stringMatching(/^layers 0-10: 16 operations each/),
      expect.stringMatching(/^layer 11: /),
    ]);
    expect(stdout).toMatch(/^ {2}matmul +attn_norm → attn_q \[tokens × 256\] +blk\.N\.attn_q\.weight$/m);
    expect(stdout).toMatch(
      /^memory\n {2}weights +(?:mapped|[\d.]+ \w?B) +[\d.]+ MB in the file\n {2}KV cache .*512 tokens.*\n {2}scratch .*\n {2}together .* fits\n {2}free now /m,
    );
  });

  it("shows what layers with a sliding window keep", async () => {
    using folder = new TemporaryFolder();
    const path = folder.file("model.gguf");
    await writeGguf(
      path,
      randomModel({
        seed: 3,
        architecture: "gemma3",
        types: ["F32"],
        width: 64,
        heads: 2,
        kvHeads: 1,
        headWidth: 32,
        feedForward: 64,
        layers: 6,
        vocabulary: 300,
        context: 8192,
        epsilon: 1e-5,
        tied: true,
        metadata: [u32("gemma3.attention.sliding_window", 64)],
      }),
    );
    const args = ["plan", "-m", path, "--ctx", "8192", "--backend", "reference"];
    const { stdout } = await rocmforge(args);
    expect(stdout).toMatch(
      /^ {2}KV cache .*\n {2} {2}5 layers +256 positions: a window of 64 tokens\n {2} {2}1 layer +8,192 positions: all tokens$/m,
    );
    const { stdout: json } = await rocmforge([...args, "--json"]);
    expect(JSON.parse(json)).toMatchObject({
      memory: { kvCacheBytes: (5 * 256 + 8192) * 2 * 32 * 4 },
      kvCacheGroups: [
        { layers: [0, 1, 2, 3, 4], window: 64, positions: 256 },
        { layers: [5], positions: 8192 },
      ],
    });
    const { stdout: inspected } = await rocmforge(["inspect", path]);
    expect(inspected).toMatch(/^ {2}KV cache +640 bytes a token in f16 of 5 layers: a window of 64 tokens$/m);
    expect(inspected).toMatch(/^ {2}KV cache +128 bytes a token in f16 of 1 layer: all tokens$/m);
    const { stdout: dump } = await rocmforge([...args, "--dump"]);
    expect(dump).toMatch(/^ {2}cache group 0: layers 0, 1, 2, 3, 4: a window of 64 tokens$/m);
  });

  it("dumps the whole program", async () => {
    const { stdout } = await rocmforge(["plan", "-m", SMALL_MODEL, "--dump"]);
    for (const heading of ["weights", "values", "scratch slots", "rope tables", "operations"])
      expect(stdout).toMatch(new RegExp(`^${heading} \\(\\d+\\)$`, "m"));
    expect(stdout).toMatch(/^ {2}0 +embedding +embed +w0 +→ v0$/m);
  });
});

describe("models that cannot be planned", () => {
  it("rejects missing tensors: the first in one line, all of them with --verbose", async () => {
    using folder = new TemporaryFolder();
    const path = folder.file("model.gguf");
    const numbers = {
      block_count: 1,
      embedding_length: 8,
      feed_forward_length: 16,
      "attention.head_count": 2,
      context_length: 32,
    };
    const metadata = [
      str("general.architecture", "llama"),
      ...Object.entries(numbers).map(([key, value]) => u32(`llama.${key}`, value)),
      { key: "llama.attention.layer_norm_rms_epsilon", type: "float32" as const, value: 1e-5 },
    ];
    await writeGguf(path, {
      metadata,
      tensors: [{ name: "token_embd.weight", type: "F32", shape: [8, 4], data: "sparse" }],
    });
    const { status, stdout, stderr } = await rocmforge(["plan", "-m", path]);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toMatch(
      /^rocmforge: \[plan\] .*model\.gguf: \S+: expected .*, found no such tensor.*; the first of 10 problems with the model's tensors \(--verbose lists them all\)\n$/,
    );
    expect(stderr.length).toBeLessThan(300);
    const verbose = await rocmforge(["plan", "-m", path, "--verbose"]);
    for (const name of ["blk.0.attn_q.weight", "blk.0.ffn_down.weight", "output_norm.weight"])
      expect(verbose.stderr).toContain(`${name}: expected`);
    expect(verbose.stderr).toMatch(/^rocmforge: MODEL_INVALID: \[plan\] [^\n]*\n {2}\S+: expected /);
  });
});
