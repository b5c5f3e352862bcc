// Opens a tokenizer without a model.

import { requireLanguageModel } from "../architectures/file-kind.js";
import { withPath } from "../error-path.js";
import { GgufError } from "../errors.js";
import { GgufFile } from "../gguf/file.js";
import { createTokenizer, hasTokenizer, type Tokenizer } from "../tokenizer/tokenizer.js";
import { resolveModel } from "./models.js";
import { typedErrors } from "./typed-errors.js";

/** Opens only the tokenizer of a model, given by path or by name; its file may be a vocabulary without tensors. */
export async function loadTokenizer(model: string): Promise<Tokenizer> {
  return await typedErrors("loadTokenizer", async () => {
    // A tokenizer needs no memory for weights.
    const { path } = await resolveModel(model, { ignoreMemoryCheck: true });
    using file = await GgufFile.open(path, { mapping: "off" });
    try {
      return tokenizerOf(file);
    } catch (error) {
      throw withPath(path, error);
    }
  });
}

function tokenizerOf({ metadata }: GgufFile): Tokenizer {
  if (hasTokenizer(metadata)) return createTokenizer(metadata);
  requireLanguageModel(metadata);
  throw new GgufError("GGUF_TOKENIZER", {
    field: "tokenizer.ggml.tokens",
    expected: "a vocabulary",
    found: "no such key",
  });
}
