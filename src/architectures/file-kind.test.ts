// GGUF files that are no language model, with the keys that llama.cpp's converters give them.

import { afterAll, describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../test/support/temporary-folder.js";
import { arr, str, u32 } from "../gguf/entry.js";
import { type GgufPlan, writeGguf } from "../gguf/writer.js";
import { loadModel, loadTokenizer } from "../index.js";

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const tensor = (name: string): GgufPlan["tensors"][number] => ({ name, type: "F32", shape: [32], data: "sparse" });

describe("a GGUF that is no language model", () => {
  it.each<[what: string, metadata: GgufPlan["metadata"], tensors: readonly string[], message: RegExp]>([
    [
      "a LoRA adapter",
      [
        str("general.type", "adapter"),
        str("general.architecture", "llama"),
        str("adapter.type", "lora"),
        str("general.base_model.0.name", "Llama 3 8B"),
      ],
      ["blk.0.attn_q.weight.lora_a"],
      /found a LoRA adapter for "Llama 3 8B"; merge it .*llama-export-lora/,
    ],
    [
      "an adapter of an older converter",
      [str("general.architecture", "llama"), str("adapter.type", "lora")],
      ["blk.0.attn_q.weight.lora_a"],
      /found a LoRA adapter;/,
    ],
    [
      "a projector",
      [str("general.type", "mmproj"), str("general.architecture", "clip")],
      ["v.blk.0.attn_q.weight"],
      /found a projector for images or sound \(mmproj\); open the language model/,
    ],
    [
      "a projector of an older converter",
      [str("general.architecture", "clip")],
      ["v.patch_embd.weight"],
      /found a projector/,
    ],
    [
      "an importance matrix",
      [str("general.type", "imatrix"), arr("imatrix.datasets", "string", ["wiki.txt"]), u32("imatrix.chunk_count", 5)],
      ["blk.0.attn_q.weight.in_sum2"],
      /found an importance matrix \(imatrix\), which steers quantisation; open the model/,
    ],
    [
      "a control vector",
      [str("general.architecture", "controlvector"), str("controlvector.model_hint", "llama")],
      ["direction.1"],
      /found a control vector;/,
    ],
  ])("rejects %s by its name, from every door", async (_what, metadata, tensors, message) => {
    const path = folder.file("kind.gguf");
    await writeGguf(path, { metadata, tensors: tensors.map(tensor) });
    for (const open of [() => loadModel(path, { backend: "reference" }), () => loadTokenizer(path)]) {
      await expect(open()).rejects.toMatchObject({
        code: "MODEL_KIND",
        details: { path },
        message: expect.stringMatching(message) as string,
      });
    }
  });

  it("names the file when the architecture is one that is not known", async () => {
    const path = folder.file("other.gguf");
    await writeGguf(path, {
      metadata: [
        str("general.architecture", "nothing-known"),
        str("tokenizer.ggml.model", "gpt2"),
        arr("tokenizer.ggml.tokens", "string", ["a"]),
      ],
      tensors: [tensor("a")],
    });
    await expect(loadModel(path, { backend: "reference" })).rejects.toMatchObject({
      code: "MODEL_ARCHITECTURE",
      message: expect.stringMatching(
        /^\[architecture\] .*other\.gguf: expected one of (?:[\w-]+, )*llama, (?:[\w-]+, )*found "nothing-known"; use a model/,
      ) as string,
    });
  });
});
