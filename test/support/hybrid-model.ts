// A small model with the proportions of Qwen 3.5: three layers with gated delta nets, then one with attention. Its
// vocabulary is one token per byte, so that a text has the same tokens wherever it stands, and its weights are random.

import { arr, str, u32 } from "../../src/gguf/entry.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { familyModel } from "../conformance/models/family-model.js";
import type { ThinkingMarks } from "./thinking-template.js";

const WIDTH = 32;
/** The last token; its logit is 0, so that texts seldom end before their limit and hardly ever at once. */
const END_TOKEN = 299;

/** Tokens of the letters that the model is made to write: without "t", which merges with "h". */
export const LETTERS: readonly number[] = Array.from("abcdefghijklmnopqrsuvwxyz", (letter) => letter.charCodeAt(0));

/** Around each message; the tokenizer knows them as control tokens. */
export const MARKS: ThinkingMarks = { begin: "<|0|>", end: "<|1|>" };

/** A chat template without thoughts. */
export const PLAIN_TEMPLATE =
  "{% for m in messages %}<|0|>{{ m.role }}\n{{ m.content }}<|1|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|0|>assistant\n{% endif %}";

/** Writes a file of the model. */
export async function writeHybridModel(
  path: string,
  { context, template = PLAIN_TEMPLATE }: { readonly context: number; readonly template?: string },
): Promise<void> {
  const model = familyModel(11, {
    architecture: "qwen35",
    context,
    layers: 4,
    width: WIDTH,
    vocabularySize: END_TOKEN + 1,
    heads: 2,
    kvHeads: 1,
    headWidth: 16,
    rotaryWidth: 8,
    feedForward: 48,
    keys: () => [
      u32("full_attention_interval", 4),
      u32("ssm.conv_kernel", 4),
      u32("ssm.state_size", 16),
      u32("ssm.group_count", 1),
      u32("ssm.time_step_rank", 2),
      u32("ssm.inner_size", 32),
      arr("rope.dimension_sections", "int32", [2, 1, 1, 0]),
    ],
  });
  for (const { name, data } of model.tensors)
    if (name === "output.weight") data.fill(0, END_TOKEN * WIDTH * Float32Array.BYTES_PER_ELEMENT);
  await writeGguf(path, { ...model, metadata: [...model.metadata, str("tokenizer.chat_template", template)] });
}

/** A text's tokens: one per byte, but for control tokens and the one merge. */
export function hybridTokens(text: string): readonly string[] {
  return text.match(/<\|\d\|>|th|[^]/g) ?? [];
}

/** A conversation's options that this model determines. */
export const HYBRID_CHAT = { marks: MARKS, answerTokens: 24, letters: LETTERS, encode: hybridTokens } as const;
