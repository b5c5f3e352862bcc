// Texts drafted by a model's own head: they are those without drafts, on every backend, and where the next token depends on
// the last one alone, in the model and in its head alike, every draft is accepted.

import { afterAll, describe, expect, it, vi } from "vitest";
import type { Backend } from "../../src/backends/contract.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import { arr, type GgufEntry, u32 } from "../../src/gguf/entry.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { Model } from "../../src/model/model.js";
import { DraftHeadPlan } from "../../src/plan/draft-head-plan.js";
import { encodeTensor } from "../../src/quant/codec.js";
import type { DraftMode } from "../../src/speculation/speculation.js";
import { FULL_RUN } from "../support/full-run.js";
import { Dice } from "../support/dice.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { HEAD_CASES } from "./models/draft-head-cases.js";
import { draftHeadModel, type FamilyShape } from "./models/family-model.js";
import type { MadeTensor, RandomModel } from "./models/random-model.js";
import { describeSubjects } from "./subjects.js";

const WIDTH = 64;
const VOCABULARY = 300;
const TOKENS = 40;
const RECURRENT: readonly GgufEntry[] = [
  u32("full_attention_interval", 2),
  u32("ssm.conv_kernel", 4),
  u32("ssm.state_size", 16),
  u32("ssm.group_count", 2),
  u32("ssm.time_step_rank", 4),
  u32("ssm.inner_size", 64),
];
const HYBRID: FamilyShape = {
  architecture: "qwen35",
  layers: 2,
  width: WIDTH,
  headWidth: 16,
  vocabularySize: VOCABULARY,
  keys: () => [...RECURRENT, arr("rope.dimension_sections", "int32", [3, 3, 2, 0])],
};

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

/** The same model, but layers add nothing, and each token is followed by the next one in a fixed order. */
function markovModel({ metadata, tensors }: RandomModel): RandomModel {
  const dice = new Dice(3);
  const vectors = Array.from({ length: VOCABULARY }, () => Array.from({ length: WIDTH }, () => dice.bell()));
  const values = (tensor: MadeTensor): Float32Array | undefined => {
    if (/(?:token_embd|embed_tokens)\.weight$/.test(tensor.name)) return Float32Array.from(vectors.flat());
    if (/(?:^output|shared_head_head)\.weight$/.test(tensor.name))
      return Float32Array.from(vectors.map((_, token) => vectors.at(token - 1)).flat(2) as number[]);
    if (tensor.name.endsWith("norm.weight")) return new Float32Array(sizeOf(tensor)).fill(1);
    if (/(?:attn_output|ssm_out|ffn_down(?:_exps|_shexp)?|ffn_latent_up)\.weight$/.test(tensor.name))
      return new Float32Array(sizeOf(tensor));
    // The head passes the token's embedding on.
    if (tensor.name.endsWith("eh_proj.weight"))
      return Float32Array.from({ length: sizeOf(tensor) }, (_, index) =>
        index % (2 * WIDTH) === Math.floor(index / (2 * WIDTH)) ? 1 : 0,
      );
    return undefined;
  };
  const changed = tensors.map((tensor) => {
    const own = values(tensor);
    return own === undefined ? tensor : { ...tensor, data: encodeTensor("F32", own) };
  });
  return { metadata, tensors: changed };
}

const sizeOf = ({ shape }: MadeTensor): number => shape.reduce((total, length) => total * length, 1);

async function written(name: string, model: RandomModel): Promise<string> {
  const path = folder.file(`${name}.gguf`);
  await writeGguf(path, model);
  return path;
}

interface Text {
  readonly tokens: readonly number[];
  readonly draftedTokens: number;
  readonly acceptedTokens: number;
}

/** Several greedy texts at once. */
async function texts(path: string, backend: Backend, draft: DraftMode): Promise<readonly Text[]> {
  await using model = await Model.open(path, backend, { draft, contextTokens: 128 });
  return await Promise.all(
    [[5, 7], [9, 11, 13], [20]].map(async (prompt) => {
      const completion = model.engine.complete({
        prompt: Int32Array.from(prompt),
        maxTokens: TOKENS,
        ignoreEndOfGeneration: true,
        sampling: { temperature: 0 },
      });
      const tokens: number[] = [];
      for await (const delta of completion) tokens.push(...delta.tokens);
      const { draftedTokens, acceptedTokens } = await completion.summary;
      return { tokens, draftedTokens, acceptedTokens };
    }),
  );
}

const total = (list: readonly Text[], field: "draftedTokens" | "acceptedTokens"): number =>
  list.reduce((sum, text) => sum + text[field], 0);

describe("reference", () => {
  it.each(HEAD_CASES)(
    "accepts every draft of $title if it depends on the last token alone",
    async ({ title, shape }) => {
      const own = { ...shape, width: WIDTH, vocabularySize: VOCABULARY, tied: false };
      const path = await written(title, markovModel(draftHeadModel(8, own)));
      const drafted = await texts(path, new ReferenceBackend(), "mtp");
      expect(drafted.map(({ tokens }) => tokens)).toEqual(
        [7, 13, 20].map((last) => Array.from({ length: TOKENS }, (_, index) => (last + 1 + index) % VOCABULARY)),
      );
      expect(total(drafted, "draftedTokens")).toBeGreaterThan(TOKENS);
      expect(total(drafted, "acceptedTokens")).toBe(total(drafted, "draftedTokens"));
    },
  );

  it("writes the text of a random model, whose drafts are mostly wrong", async () => {
    const path = await written("random", draftHeadModel(6, HYBRID));
    const plain = await texts(path, new ReferenceBackend(), "off");
    const drafted = await texts(path, new ReferenceBackend(), "mtp");
    expect(drafted.map(({ tokens }) => tokens)).toEqual(plain.map(({ tokens }) => tokens));
    expect(total(drafted, "draftedTokens")).toBeGreaterThan(0);
    expect(total(plain, "draftedTokens")).toBe(0);
  });

  it("asks a head that finds no likely token less and less often", async () => {
    const { metadata, tensors } = draftHeadModel(6, HYBRID);
    // All tokens are equally likely to the head.
    const flat = tensors.map((tensor) =>
      tensor.name.endsWith("shared_head_norm.weight")
        ? { ...tensor, data: new Uint8Array(tensor.data.length) }
        : tensor,
    );
    const path = await written("flat", { metadata, tensors: flat });
    await using model = await Model.open(path, new ReferenceBackend(), { draft: "mtp", contextTokens: 256 });
    const spied = vi.spyOn(DraftHeadPlan.prototype, "step");
    const { draftedTokens, generatedTokens } = await model.engine.complete({
      prompt: Int32Array.of(5, 7),
      maxTokens: 200,
      ignoreEndOfGeneration: true,
      sampling: { temperature: 0 },
    }).summary;
    const steps = spied.mock.calls.length;
    spied.mockRestore();
    expect([draftedTokens, generatedTokens]).toEqual([0, 200]);
    expect(steps).toBeGreaterThan(0);
    expect(steps).toBeLessThan(40);
  });

  it("goes on drafting for the others if a request is cancelled while the head computes", async () => {
    const path = await written("cancelled", markovModel(draftHeadModel(5, { ...HYBRID, tied: false })));
    await using model = await Model.open(path, new ReferenceBackend(), { draft: "mtp", contextTokens: 128 });
    const request = (last: number) => ({
      prompt: Int32Array.of(last),
      maxTokens: TOKENS,
      ignoreEndOfGeneration: true,
      sampling: { temperature: 0 },
    });
    const cancelled = new AbortController();
    const { step } = DraftHeadPlan.prototype;
    let steps = 0;
    const spied = vi.spyOn(DraftHeadPlan.prototype, "step").mockImplementation(async function (
      this: DraftHeadPlan,
      ...input
    ) {
      const rows = await step.apply(this, input);
      // The draft goes on, but not that of the cancelled request.
      if (++steps === 1) cancelled.abort();
      return rows;
    });
    const first = model.engine.complete({ ...request(9), signal: cancelled.signal });
    const second = model.engine.complete(request(20));
    const tokens: number[] = [];
    for await (const delta of second) tokens.push(...delta.tokens);
    const { acceptedTokens } = await second.summary;
    expect((await first.summary).choices[0].reason).toBe("abort");
    spied.mockRestore();
    expect(tokens).toEqual(Array.from({ length: TOKENS }, (_, index) => (21 + index) % VOCABULARY));
    expect(acceptedTokens).toBeGreaterThan(TOKENS / 4);
    const { stateSlots, freeStateSlots, checkpoints, running } = model.engine.statistics();
    expect({ running, left: stateSlots - freeStateSlots - checkpoints }).toEqual({ running: 0, left: 0 });
  });

  it("uses the head by itself, and refuses one that the model does not have", async () => {
    const model = markovModel(draftHeadModel(5, { ...HYBRID, tied: false }));
    const auto = await texts(await written("auto", model), new ReferenceBackend(), "auto");
    expect(total(auto, "acceptedTokens")).toBeGreaterThan(0);
    const tensors = model.tensors.filter(({ name }) => !name.includes("nextn"));
    const path = await written("none", { ...model, tensors });
    await expect(Model.open(path, new ReferenceBackend(), { draft: "mtp" })).rejects.toThrow(/no draft head/);
  });
});

describeSubjects(
  (subject) => {
    const isSlow = !subject.name.startsWith("cpu") && !FULL_RUN;
    it.skipIf(isSlow)(
      "writes the same text with the head's drafts, to the bit (on GPUs: npm run test:full)",
      async () => {
        const path = await written(`subject ${subject.name}`, draftHeadModel(6, HYBRID));
        const plain = await texts(path, subject.create({ deterministic: true }), "off");
        const drafted = await texts(path, subject.create({ deterministic: true }), "mtp");
        expect(drafted.map(({ tokens }) => tokens)).toEqual(plain.map(({ tokens }) => tokens));
        expect(total(drafted, "draftedTokens")).toBeGreaterThan(0);
      },
    );
  },
  { waveSize: 32 },
);
