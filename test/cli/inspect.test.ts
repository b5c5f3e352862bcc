// `rocmforge inspect`: shows every well-formed file, runnable or not, and refuses the others.

import { readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { arr, f32, str, u32 } from "../../src/gguf/entry.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { fixture, rocmforge, SMALL_MODEL } from "./command-line.js";

const HALF_MODEL = fixture("models/fable-3m-qwen2-F16.gguf");

interface InspectJson {
  readonly version: number;
  readonly sizeBytes: number;
  readonly parts: readonly unknown[];
  readonly mapping: { readonly mapped: boolean; readonly reason: string };
  readonly architecture: { readonly name?: string; readonly supported: boolean; readonly problem?: string };
  readonly parameters?: Readonly<Record<string, unknown>>;
  readonly tokenizer: { readonly vocabularySize: number; readonly specialTokens: readonly { readonly role: string }[] };
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly bytesByRole: readonly { readonly name: string; readonly sizeBytes: number; readonly share: number }[];
  readonly bytesByType: readonly { readonly name: string; readonly tensors: number; readonly supported: boolean }[];
  readonly tensors: readonly {
    readonly name: string;
    readonly type: string;
    readonly supported: boolean;
    readonly shape: readonly number[];
  }[];
}

async function inspectJson(path: string): Promise<InspectJson> {
  const finished = await rocmforge(["inspect", path, "--json"]);
  expect(finished).toMatchObject({ status: 0, stderr: "" });
  return JSON.parse(finished.stdout) as InspectJson;
}

describe("what a file says about the choice of tokens", () => {
  it("is shown, with the keys that have no effect", async () => {
    using folder = new TemporaryFolder();
    const path = folder.file("vocabulary.gguf");
    await writeGguf(path, {
      metadata: [
        str("general.architecture", "llama"),
        str("tokenizer.ggml.model", "gpt2"),
        arr("tokenizer.ggml.tokens", "string", ["a", "b", "c"]),
        arr("tokenizer.ggml.suppress_tokens", "int32", [0, 2]),
        f32("general.sampling.temp", 0.7),
        u32("general.sampling.top_k", 64),
        f32("general.sampling.top_p", Number.NaN),
        str("general.sampling.sequence", "top_k;temp"),
      ],
      tensors: [],
    });
    const { status, stdout } = await rocmforge(["inspect", path]);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^ {2}never chosen +2 tokens$/m);
    expect(stdout).toMatch(/^recommended sampling\n {2}temperature +0\.7\n {2}top k +64\n/m);
    expect(stdout).toMatch(/^ {2}general\.sampling\.top_p +ignored/m);
    expect(await inspectJson(path)).toMatchObject({
      tokenizer: { suppressedTokens: 2 },
      sampling: {
        options: { temperature: 0.7, topK: 64 },
        ignoredKeys: ["general.sampling.top_p", "general.sampling.sequence"],
      },
    });
  });
});

describe("a model", () => {
  it("is shown as text, long arrays by their length", async () => {
    const { status, stdout, stderr } = await rocmforge(["inspect", SMALL_MODEL]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toMatch(/GGUF version 3, .* alignment 32, (?:not )?mapped: /);
    expect(stdout).toContain("architecture: qwen2 (supported)");
    expect(stdout).toMatch(/^ {2}embedding width +\d+$/m);
    expect(stdout).toMatch(/^ {2}tokenizer\.ggml\.tokens +1,024 strings$/m);
    expect(stdout).toMatch(/^ {2}feed-forward +[\d.]+ .B +[\d.]+ % +\d+ tensors +█+$/m);
    expect(stdout).toMatch(/^ {2}blk\.0\.attn_q\.weight +\w+ +\[\d+, \d+\] +[\d.]+ kB$/m);
  });

  it("is shown as data whose bytes add up to the file", async () => {
    const report = await inspectJson(SMALL_MODEL);
    expect(report).toMatchObject({
      version: 3,
      architecture: { name: "qwen2", supported: true },
      tokenizer: { vocabularySize: 1024 },
    });
    expect(report.parts).toHaveLength(1);
    expect(report.parameters).toMatchObject({ vocabularySize: 1024, contextLength: 512 });
    expect(report.metadata["tokenizer.ggml.tokens"]).toEqual({ elementType: "string", length: 1024 });
    expect(report.bytesByRole.reduce((total, { sizeBytes }) => total + sizeBytes, 0)).toBe(report.sizeBytes);
    expect(report.bytesByType.reduce((total, { tensors }) => total + tensors, 0)).toBe(report.tensors.length);
    expect(report.bytesByRole.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["embedding", "attention", "feed-forward", "norms"]),
    );
    expect(report.bytesByRole.map(({ name }) => name)).not.toContain("other");
  });

  it("is the embedded one without a file", async () => {
    expect((await rocmforge(["inspect"])).stdout).toContain("fable-10m-Q4_K_M.gguf");
  });
});

describe("files that cannot be run", () => {
  it("shows a vocabulary without tensors", async () => {
    using folder = new TemporaryFolder();
    const path = folder.file("vocabulary.gguf");
    const tokens = ["<s>", "a", "b\u001b[2J"];
    const metadata = [
      str("general.architecture", "nothing-known"),
      str("general.name", "clears\u001b[2J the screen"),
      str("tokenizer.ggml.model", "gpt2"),
      arr("tokenizer.ggml.tokens", "string", tokens),
      u32("tokenizer.ggml.bos_token_id", 2),
      arr("some.list", "uint32", [1, 2, 3]),
    ];
    await writeGguf(path, { metadata, tensors: [] });
    const { status, stdout } = await rocmforge(["inspect", path]);
    expect(status).toBe(0);
    expect(stdout).toContain("architecture: nothing-known (not supported)");
    expect(stdout).toContain("a vocabulary only");
    expect(stdout).toMatch(/^ {2}some\.list +\[1, 2, 3\]$/m);
    expect(stdout).toContain(String.raw`b\u{1b}[2J`);
    expect(stdout).not.toContain("\u001b");
  });

  it("shows another architecture, and says which are supported", async () => {
    using folder = new TemporaryFolder();
    const path = patched(folder, HALF_MODEL, (bytes) => bytes.write("qwenX", bytes.indexOf("qwen2")));
    const report = await inspectJson(path);
    expect(report.architecture).toMatchObject({
      name: "qwenX",
      supported: false,
      problem: expect.stringContaining("qwen2") as string,
    });
    expect(report.tensors.length).toBeGreaterThan(10);
    const refused = await rocmforge(["generate", "-m", path, "-p", "a"]);
    expect(refused).toMatchObject({ status: 1, stdout: "" });
    expect(refused.stderr).toMatch(/^rocmforge: \[architecture\] .*\.gguf: expected one of .*"qwenX"; .*\n$/);
  });

  it("shows a type without a decoder, which other commands refuse by name", async () => {
    using folder = new TemporaryFolder();
    const path = withType(folder, 25);
    const report = await inspectJson(path);
    expect(report.tensors.find(({ name }) => name === "blk.0.attn_q.weight")).toMatchObject({
      type: "I16",
      supported: false,
    });
    expect(report.bytesByType).toContainEqual(expect.objectContaining({ name: "I16", tensors: 1, supported: false }));
    const refused = await rocmforge(["plan", "-m", path]);
    expect(refused).toMatchObject({ status: 1, stdout: "" });
    expect(refused.stderr).toMatch(
      /^rocmforge: [\s\S]*blk\.0\.attn_q\.weight: expected one of the types F32, .*Q4_K.*, found I16/,
    );
    expect(refused.stderr).not.toMatch(/^\s+at /m);
  });

  it("shows what it can of a file with an impossible hyper-parameter, and fails", async () => {
    using folder = new TemporaryFolder();
    const path = folder.file("model.gguf");
    const metadata = [str("general.architecture", "llama"), u32("llama.block_count", 0)];
    await writeGguf(path, {
      metadata,
      tensors: [{ name: "token_embd.weight", type: "F32", shape: [4, 4], data: "sparse" }],
    });
    const { status, stdout, stderr } = await rocmforge(["inspect", path]);
    expect(status).toBe(1);
    expect(stdout).toContain("token_embd.weight");
    expect(stderr).toMatch(/^rocmforge: .+\n$/);
  });
});

describe("bad files", () => {
  const whole = readFileSync(SMALL_MODEL);

  it.each<[what: string, bytes: Uint8Array, code: string]>([
    ["an empty file", new Uint8Array(), "GGUF_TRUNCATED"],
    ["a file cut in its header", whole.subarray(0, 1000), "GGUF_TRUNCATED"],
    ["a file cut in its tensors", whole.subarray(0, whole.length - 100_000), "GGUF_TRUNCATED"],
    ["something else", Buffer.from("%PDF-1.7 and then more than twenty-four bytes"), "GGUF_NOT_GGUF"],
  ])("rejects %s", async (_what, bytes, code) => {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file("bad.gguf"), bytes);
    const { status, stdout, stderr } = await rocmforge(["inspect", folder.file("bad.gguf")]);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toMatch(/^rocmforge: \[gguf\] .*bad\.gguf: .*expected .*found .*\n$/);
    expect((await rocmforge(["inspect", folder.file("bad.gguf"), "--verbose"])).stderr).toMatch(
      new RegExp(`^rocmforge: ${code}: \\[gguf\\] `),
    );
  });

  it("rejects an unknown type, naming type, tensor and what is supported", async () => {
    using folder = new TemporaryFolder();
    const { status, stderr } = await rocmforge(["inspect", withType(folder, 99)]);
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /^rocmforge: \[gguf\] .*: blk\.0\.attn_q\.weight\.type: expected one of .*Q4_K.* found 99.*\n$/,
    );
  });

  it.each([
    ["a missing file", "no-such.gguf", /^rocmforge: .*no-such\.gguf.*\n$/],
    ["a directory", ".", /^rocmforge: .*a directory .*\n$/],
  ])("rejects %s, whatever the command", async (_what, path, line) => {
    const runs = [
      ["inspect", path],
      ["generate", "-m", path, "-p", "a"],
      ["tokenize", "-m", path, "-p", "a"],
      ["plan", "-m", path],
    ];
    for (const finished of await Promise.all(runs.map((args) => rocmforge(args)))) {
      expect(finished).toMatchObject({ status: 1, stdout: "" });
      expect(finished.stderr).toMatch(line);
    }
  });
});

function patched(folder: TemporaryFolder, source: string, change: (bytes: Buffer) => unknown): string {
  const bytes = readFileSync(source);
  change(bytes);
  const path = folder.file("patched.gguf");
  writeFileSync(path, bytes);
  return path;
}

/** The F16 model with another type id on one matrix; a name is followed by the dimension count, two dimensions, the type. */
function withType(folder: TemporaryFolder, typeId: number): string {
  const name = "blk.0.attn_q.weight";
  return patched(folder, HALF_MODEL, (bytes) =>
    bytes.writeUInt32LE(typeId, bytes.indexOf(name) + name.length + 4 + 16),
  );
}
