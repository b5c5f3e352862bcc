// The words that this project once had for things that have a name in the field, as rules for identifiers and file
// names. docs/glossary.md explains the field's words. A rule is here only if its word has no other meaning in the files
// that it applies to; ordinary words (line, place, round, found) are left to reviewers.

export interface WordRule {
  /** Matches the words of a name in lower case, `few rows` for `MOST_FEW_ROWS`. */
  readonly pattern: RegExp;
  /** The field's word. */
  readonly instead: string;
  /** The rule applies to these folders only; to all of them by default. */
  readonly folders?: readonly string[];
  /** Where the word has another meaning: paths, and the meaning. */
  readonly except?: readonly (readonly [path: string, meaning: string])[];
}

const NATIVE_CODE = ["kernels/", "native/"];
const TOKEN_PIECE = "the text of one token, as in the requests and responses of /tokenize";

export const RULES: readonly WordRule[] = [
  {
    pattern: /\b(?:is writing|writers?|beside writers)\b(?! \w*(?:file|gguf))/,
    instead: "decoding",
    folders: ["src/scheduler/", "src/engine/", "src/model/", "src/completion/"],
  },
  { pattern: /\bprompt shares?\b|\bprompt tokens beside\b/, instead: "prefill chunk, prefill budget" },
  { pattern: /\brows class\b|\bmost few rows\b|\b(?:few|some|many) rows\b/, instead: "batch size class" },
  { pattern: /\bcompany\b/, instead: "batch" },
  {
    pattern: /(?<!\b(?:dot|cross) )\bproducts?\b/,
    instead: "matmul, GEMV, GEMM",
    except: [["src/chat/template/jinja/", "the result of `*` in a template"]],
  },
  { pattern: /\brun project\b/, instead: "matmul" },
  { pattern: /\brounded (?:rows?|inputs?|activations?|blocks?|vectors?)\b/, instead: "quantized activations" },
  { pattern: /\brelay(?:s|ed|ing)?\b|\bre lay\b|\brelaid\b/, instead: "repack" },
  { pattern: /\bfinish(?:es|ing)?\b/, instead: "epilogue", folders: NATIVE_CODE },
  { pattern: /\bturn pairs?\b|\bturns? (?:by|table|angle)\b/, instead: "rotate, RoPE" },
  { pattern: /\bturns?\b/, instead: "rotation, RoPE", folders: NATIVE_CODE },
  { pattern: /\bsoften(?:s|ed|ing)?\b/, instead: "softmax" },
  { pattern: /^(?:larger|smaller)(?: of)?$/, instead: "max, min", folders: NATIVE_CODE },
  { pattern: /^fused$/, instead: "fma", folders: NATIVE_CODE },
  {
    pattern: /(?<!\bsentence )\bpieces?\b/,
    instead: "block, tile, chunk or delta",
    except: [
      ["src/tokenizer/tokenizer-call.ts", TOKEN_PIECE],
      ["src/cli/commands/tokenize.ts", TOKEN_PIECE],
      ["src/server/routes/native/tokenize.ts", TOKEN_PIECE],
      ["test/cli/tokenize.test.ts", TOKEN_PIECE],
      ["test/server/completions.test.ts", TOKEN_PIECE],
      ["test/server/long-texts.test.ts", TOKEN_PIECE],
    ],
  },
  { pattern: /\bmakes? way\b/, instead: "preempt" },
  { pattern: /\bshelf\b|\bshelves\b/, instead: "model pool" },
  { pattern: /\b(?:grammar|render|slow|timed|open|all|choose|worker) homes?\b|\bhome limits\b/, instead: "worker" },
  { pattern: /\blessons?\b|\btaught\b|\bteach(?:es)?\b/, instead: "resend lost state" },
  { pattern: /\bdeclare work\b|\breception\b/, instead: "in-flight request, request tracker" },
  { pattern: /\bmask watch(?:es)?\b|\bpatience\b/, instead: "logit mask, mask barrier" },
  {
    pattern: /(?<!\b(?:read|look) )\bahead\b/,
    instead: "warm up, prefetch or early start",
    except: [
      ["src/grammar/", "a lookahead"],
      ["test/grammar/", "a lookahead"],
    ],
  },
  { pattern: /\bpresence\b(?! penalt(?:y|ies)\b)/, instead: "detect, probe" },
  { pattern: /\bsurveys?\b/, instead: "detect, diagnostics" },
  {
    pattern: /\bfacts?\b/,
    instead: "properties, diagnostics",
    except: [["src/grammar/", "what is known of a grammar's rules"]],
  },
  { pattern: /\bobstacles?\b/, instead: "unavailable reason" },
  { pattern: /\bborder(?: version)?\b/, instead: "native bindings" },
  { pattern: /\bmatrix librar(?:y|ies)\b|\blibrary (?:matmuls?|products?)\b/, instead: "BLAS library" },
];

/** Names that contain such a word with good reason. */
export const EXCEPTIONS: Readonly<Record<string, string>> = {
  presence_penalty: "the field of OpenAI's API",
  with_pieces: "the field of /tokenize",
  withPieces: "the same, in camel case",
  presencePenalty: "the sampler's option, as the field calls it",
};
