import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { GgufError, TokenizerError } from "../errors.js";
import { arr, bool, str, u32, type GgufEntry } from "../gguf/entry.js";
import { GgufMetadata } from "../gguf/metadata.js";
import { SPELLING_OF_BYTE } from "./byte-level.js";
import { TokenizerBuilder } from "./tokenizer-builder.js";
import { checkTokenizerMetadata, createTokenizer, type Tokenizer } from "./tokenizer.js";

const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const BYTE = 6;

const BPE_TOKENS = [
  "<|begin|>",
  "<|endoftext|>",
  "<tool>",
  ...SPELLING_OF_BYTE.map(String),
  "he",
  "ll",
  "hell",
  "hello",
  "Ġw",
  "ðŁ",
];
const BPE_TYPES = BPE_TOKENS.map((_, id) => (id < 2 ? CONTROL : id === 2 ? USER_DEFINED : NORMAL));
const BPE_ENTRIES: readonly GgufEntry[] = [
  str("tokenizer.ggml.model", "gpt2"),
  str("tokenizer.ggml.pre", "gpt-2"),
  arr("tokenizer.ggml.tokens", "string", BPE_TOKENS),
  arr("tokenizer.ggml.token_type", "int32", BPE_TYPES),
  arr("tokenizer.ggml.merges", "string", ["h e", "l l", "he ll", "hell o", "Ġ w", "ð Ł"]),
  u32("tokenizer.ggml.bos_token_id", 0),
  u32("tokenizer.ggml.eos_token_id", 1),
];

const BYTE_TOKENS = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
const SPM_TOKENS = ["<unk>", "<s>", "</s>", "<user>", ...BYTE_TOKENS, "▁", "h", "i", "▁h", "▁hi", "hi"];
const SPM_TYPES = SPM_TOKENS.map(
  (text, id) => [UNKNOWN, CONTROL, CONTROL, USER_DEFINED][id] ?? (text.startsWith("<0x") ? BYTE : NORMAL),
);
const SPM_ENTRIES: readonly GgufEntry[] = [
  str("tokenizer.ggml.model", "llama"),
  arr("tokenizer.ggml.tokens", "string", SPM_TOKENS),
  arr("tokenizer.ggml.token_type", "int32", SPM_TYPES),
  arr(
    "tokenizer.ggml.scores",
    "float32",
    SPM_TOKENS.map((text) => -text.length),
  ),
];

const make = (entries: readonly GgufEntry[]): Tokenizer => createTokenizer(new GgufMetadata(entries));
/** The entries with those of the same keys replaced, or left out where `undefined`. */
function changed(entries: readonly GgufEntry[], changes: Readonly<Record<string, GgufEntry | undefined>>): GgufEntry[] {
  return [
    ...entries.filter(({ key }) => !Object.hasOwn(changes, key)),
    ...Object.values(changes).filter((entry) => entry !== undefined),
  ];
}
const texts = (tokenizer: Tokenizer, ids: Iterable<number>): string[] =>
  Array.from(ids, (id) => tokenizer.tokenText(id));

const bpe = make(BPE_ENTRIES);
const spm = make(SPM_ENTRIES);

describe("a tokenizer made bit by bit", () => {
  test("is the one that is made at once, wherever one stops", () => {
    for (const turns of [0, 1, 100]) {
      const gradual = new TokenizerBuilder(new GgufMetadata(BPE_ENTRIES));
      let left = turns;
      while (left-- > 0 && gradual.step());
      const tokenizer = gradual.finish();
      expect(gradual.finish()).toBe(tokenizer);
      expect(gradual.step()).toBe(false);
      expect(tokenizer.encode("hello world <tool>")).toEqual(bpe.encode("hello world <tool>"));
    }
  });

  test("throws the file's error when the tokenizer is requested", () => {
    const gradual = new TokenizerBuilder(
      new GgufMetadata(
        changed(BPE_ENTRIES, { "tokenizer.ggml.merges": arr("tokenizer.ggml.merges", "string", ["h e", "nonsense"]) }),
      ),
    );
    while (gradual.step());
    for (let time = 0; time < 2; time++) expect(() => gradual.finish()).toThrow(GgufError);
  });
});

describe("byte-level BPE", () => {
  test("merges by rank and spells the rest in bytes", () => {
    expect(texts(bpe, bpe.encode("hello wé", { addSpecial: false }))).toEqual(["hello", "Ġw", "Ã", "©"]);
  });

  test("decodes what it encoded, whatever the text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 60 }), (text) => {
        expect(bpe.decode(bpe.encode(text, { parseSpecial: false, addSpecial: false }))).toBe(text);
      }),
    );
  });

  test("keeps a leading space even if the file sets a prefix, because encoding adds none", () => {
    const prefixed = make([...BPE_ENTRIES, bool("tokenizer.ggml.add_space_prefix", true)]);
    expect(prefixed.decode(prefixed.encode(" hello"))).toBe(" hello");
  });

  test("takes a lone surrogate for U+FFFD", () => {
    expect([...bpe.encode("a\ud800b")]).toEqual([...bpe.encode("a\ufffdb")]);
  });

  test("drops bytes that the vocabulary lacks, as llama.cpp does", () => {
    const sparse = make([
      str("tokenizer.ggml.model", "gpt2"),
      arr("tokenizer.ggml.tokens", "string", ["a", "b"]),
      arr("tokenizer.ggml.merges", "string", ["a b"]),
    ]);
    expect(texts(sparse, sparse.encode("acab"))).toEqual(["a", "a", "b"]);
  });

  test("encodes a long word", () => {
    const text = "hello".repeat(50_000);
    const ids = bpe.encode(text, { addSpecial: false });
    expect(ids.length).toBe(50_000);
    expect(bpe.decode(ids)).toBe(text);
  });
});

describe("SentencePiece", () => {
  test("puts a space in front, merges by score and falls back to byte tokens", () => {
    expect(texts(spm, spm.encode("hi hié", { addSpecial: false }))).toEqual(["▁hi", "▁hi", "<0xC3>", "<0xA9>"]);
  });

  test.each([
    [-1, -2, ["ab", "c"]],
    [-2, -1, ["a", "bc"]],
    [-1, -1, ["ab", "c"]],
  ])("prefers the higher score and the leftmost of equals: ab %d, bc %d", (ab, bc, expected) => {
    const scored = make([
      str("tokenizer.ggml.model", "llama"),
      arr("tokenizer.ggml.tokens", "string", ["<unk>", "<s>", "</s>", "a", "b", "c", "ab", "bc"]),
      arr("tokenizer.ggml.scores", "float32", [0, 0, 0, 0, 0, 0, ab, bc]),
      bool("tokenizer.ggml.add_space_prefix", false),
    ]);
    expect(texts(scored, scored.encode("abc", { addSpecial: false }))).toEqual(expected);
  });

  test("decodes without the space that encoding put in front, and keeps it in a continuation", () => {
    const ids = spm.encode("hi  hi", { addSpecial: false });
    expect(spm.decode(ids)).toBe("hi  hi");
    expect(spm.createDecoder({ continuation: true }).push(ids[0] as number)).toBe(" hi");
  });

  test("decodes what it encoded with BOS in front, leading spaces included", () => {
    for (const text of ["hi", " hi", "  hi", " ", "é"]) expect(spm.decode(spm.encode(text))).toBe(text);
  });

  test("adds no space prefix if the file says so", () => {
    const plain = make([...SPM_ENTRIES, bool("tokenizer.ggml.add_space_prefix", false)]);
    expect(texts(plain, plain.encode("hi", { addSpecial: false }))).toEqual(["hi"]);
  });

  test("uses the unknown token if there is no byte token", () => {
    const entries = [
      str("tokenizer.ggml.model", "llama"),
      arr("tokenizer.ggml.tokens", "string", ["<unk>", "<s>", "</s>", "▁"]),
    ];
    expect([...make(entries).encode("x")]).toEqual([1, 3, 0]);
  });
});

describe("special tokens", () => {
  test("are parsed from text only on request, user-defined ones always", () => {
    const text = "a<|endoftext|><tool>";
    expect(bpe.encode(text, { addSpecial: false }).length).toBe(3);
    const plain = bpe.encode(text, { addSpecial: false, parseSpecial: false });
    expect(plain).not.toContain(1);
    expect(plain.at(-1)).toBe(2);
  });

  test("are added as the file says", () => {
    expect([...bpe.encode("")]).toEqual([]);
    const both = make([
      ...BPE_ENTRIES,
      bool("tokenizer.ggml.add_bos_token", true),
      bool("tokenizer.ggml.add_eos_token", true),
    ]);
    expect([...both.encode("")]).toEqual([0, 1]);
    expect([...both.encode("", { addSpecial: false })]).toEqual([]);
    expect([...spm.encode("")]).toEqual([1]);
  });

  test("of the longer text win", () => {
    const tokens = ["<a>", "<a><b>", "x"];
    const types = arr("tokenizer.ggml.token_type", "int32", [CONTROL, CONTROL, NORMAL]);
    const entries = [
      str("tokenizer.ggml.model", "gpt2"),
      arr("tokenizer.ggml.tokens", "string", tokens),
      types,
      arr("tokenizer.ggml.merges", "string", []),
    ];
    expect([...make(entries).encode("<a><b>x<a>")]).toEqual([1, 2, 0]);
  });

  test("swallow the white space that follows in Phi-3", () => {
    const phi = make([...SPM_ENTRIES, str("general.name", "Phi-3 mini")]);
    expect(texts(phi, phi.encode("<user> \nhi<s> hi", { addSpecial: false }))).toEqual([
      "<user>",
      "▁hi",
      "<s>",
      "▁",
      "▁hi",
    ]);
  });

  test("are printed only on request", () => {
    expect(bpe.decode([0, 2, 1])).toBe("<tool>");
    expect(bpe.decode([0, 2, 1], { special: true })).toBe("<|begin|><tool><|endoftext|>");
  });

  test("end generation by the file's ids and by known texts, which become control tokens", () => {
    expect(bpe.endOfGeneration).toEqual(new Set([1]));
    const tokens = [...BPE_TOKENS, "<|im_end|>", "<|fim_pad|>"];
    const more = make(
      changed(BPE_ENTRIES, {
        "tokenizer.ggml.tokens": arr("tokenizer.ggml.tokens", "string", tokens),
        "tokenizer.ggml.token_type": undefined,
        "tokenizer.ggml.eot_token_id": u32("tokenizer.ggml.eot_token_id", 5),
      }),
    );
    expect(more.endOfGeneration).toEqual(new Set([1, 5, tokens.length - 2, tokens.length - 1]));
    expect(more.decode([tokens.length - 2])).toBe("");
  });
});

describe("streaming", () => {
  test.each([
    ["bpe", bpe],
    ["spm", spm],
  ] as const)("%s gives what decoding at once gives, and never half a character", (_, tokenizer) => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", maxLength: 40 }).filter((text) => !text.includes("\ufffd")),
        (text) => {
          const ids = tokenizer.encode(text, { parseSpecial: false });
          const decoder = tokenizer.createDecoder();
          const parts = Array.from(ids, (id) => decoder.push(id));
          parts.push(decoder.flush());
          expect(parts.join("")).toBe(tokenizer.decode(ids));
          expect(parts.some((part) => part.includes("\ufffd"))).toBe(false);
        },
      ),
    );
  });

  test("gives the same as decoding at once for tokens in any order", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(BPE_TOKENS.length - 1), { maxLength: 30 }), (ids) => {
        const decoder = bpe.createDecoder();
        const streamed = ids.map((id) => decoder.push(id)).join("") + decoder.flush();
        expect(streamed).toBe(Buffer.concat(ids.map((id) => bpe.tokenBytes(id))).toString("utf8"));
      }),
    );
  });

  test("holds an emoji back until its last byte", () => {
    const ids = bpe.encode("🚀", { addSpecial: false });
    const decoder = bpe.createDecoder();
    expect(Array.from(ids, (id) => decoder.push(id))).toEqual(["", "", "🚀"]);
  });

  test("flushes an incomplete character as U+FFFD", () => {
    const decoder = bpe.createDecoder();
    expect(decoder.push(BPE_TOKENS.indexOf("ðŁ"))).toBe("");
    expect(decoder.flush()).toBe("\ufffd");
    expect(decoder.flush()).toBe("");
  });
});

describe("odd vocabularies", () => {
  test("may have empty, repeated and invalid tokens", () => {
    const tokens = [...SPM_TOKENS, "", "", "hi", Uint8Array.of(0xff, 0xfe)];
    const odd = make(
      changed(SPM_ENTRIES, {
        "tokenizer.ggml.tokens": arr("tokenizer.ggml.tokens", "string", tokens),
        "tokenizer.ggml.token_type": undefined,
        "tokenizer.ggml.scores": undefined,
      }),
    );
    expect(odd.vocabularySize).toBe(SPM_TOKENS.length + 4);
    expect(odd.tokenText(SPM_TOKENS.length)).toBe(`[EMPTY_${SPM_TOKENS.length}]`);
    expect([...odd.tokenBytes(tokens.length - 1)]).toEqual([0xff, 0xfe]);
    expect(texts(odd, odd.encode("hi \ufffd", { addSpecial: false }))).toEqual([
      "▁hi",
      "▁",
      "<0xEF>",
      "<0xBF>",
      "<0xBD>",
    ]);
  });
});

describe("rejects", () => {
  const refusal = (
    entries: readonly GgufEntry[],
    run: (metadata: GgufMetadata) => unknown = createTokenizer,
  ): unknown => {
    try {
      run(new GgufMetadata(entries));
    } catch (error) {
      return error;
    }
    return undefined;
  };
  const key = (name: string): string => `tokenizer.ggml.${name}`;

  test.each<[string, Readonly<Record<string, GgufEntry | undefined>>, string]>([
    ["no model", { [key("model")]: undefined }, key("model")],
    ["no tokens", { [key("tokens")]: undefined }, key("tokens")],
    ["tokens that are numbers", { [key("tokens")]: arr(key("tokens"), "int32", [1]) }, key("tokens")],
    [
      "an empty vocabulary",
      { [key("tokens")]: arr(key("tokens"), "string", []), [key("token_type")]: undefined },
      key("tokens"),
    ],
    ["types of another length", { [key("token_type")]: arr(key("token_type"), "int32", [1]) }, key("token_type")],
    ["types that are texts", { [key("token_type")]: arr(key("token_type"), "string", BPE_TOKENS) }, key("token_type")],
    ["scores of another length", { [key("scores")]: arr(key("scores"), "float32", [1, 2]) }, key("scores")],
    ["no merges", { [key("merges")]: undefined }, key("merges")],
    ["merges that are numbers", { [key("merges")]: arr(key("merges"), "float32", [1]) }, key("merges")],
    [
      "a merge without a space",
      { [key("merges")]: arr(key("merges"), "string", ["h e", "hello"]) },
      `${key("merges")}[1]`,
    ],
    ["a merge with an empty side", { [key("merges")]: arr(key("merges"), "string", ["h "]) }, `${key("merges")}[0]`],
    ["an empty merge", { [key("merges")]: arr(key("merges"), "string", [""]) }, `${key("merges")}[0]`],
    [
      "a BOS outside the vocabulary",
      { [key("bos_token_id")]: u32(key("bos_token_id"), BPE_TOKENS.length) },
      key("bos_token_id"),
    ],
    ["an EOS that is a text", { [key("eos_token_id")]: str(key("eos_token_id"), "x") }, key("eos_token_id")],
    ["a flag that is a number", { [key("add_bos_token")]: u32(key("add_bos_token"), 1) }, key("add_bos_token")],
  ])("%s", (_, changes, field) => {
    const error = refusal(changed(BPE_ENTRIES, changes));
    expect(error).toBeInstanceOf(GgufError);
    expect(error).toMatchObject({ code: "GGUF_TOKENIZER", field });
  });

  test("a BOS to be added that the file does not name", () => {
    const entries = changed(BPE_ENTRIES, { [key("pre")]: str(key("pre"), "glm4"), [key("bos_token_id")]: undefined });
    expect(refusal([...entries, bool(key("add_bos_token"), true)])).toMatchObject({
      code: "GGUF_TOKENIZER",
      field: key("bos_token_id"),
    });
  });

  test("an unknown model or pre-tokenizer, naming those it knows", () => {
    const model = refusal(changed(BPE_ENTRIES, { [key("model")]: str(key("model"), "rwkv") }));
    expect(model).toBeInstanceOf(TokenizerError);
    expect(model).toMatchObject({
      code: "TOKENIZER_MODEL",
      message: expect.stringContaining("gpt2, gemma4, llama") as string,
    });
    const preTokenizer = refusal(changed(BPE_ENTRIES, { [key("pre")]: str(key("pre"), "toString") }));
    expect(preTokenizer).toMatchObject({
      code: "TOKENIZER_MODEL",
      message: expect.stringContaining("llama-bpe") as string,
    });
  });

  test.each([-1, BPE_TOKENS.length, 0.5, Number.NaN])("token %d", (id) => {
    for (const use of [() => bpe.decode([id]), () => bpe.tokenText(id), () => bpe.tokenBytes(id)]) {
      expect(use).toThrow(expect.objectContaining({ code: "TOKENIZER_TOKEN" }) as Error);
    }
  });

  test("arguments of the wrong kind", () => {
    for (const text of [undefined, 5, {}, [104, 105], Buffer.from("x")]) {
      expect(() => bpe.encode(text as string)).toThrow(expect.objectContaining({ code: "OPTION_VALUE" }) as Error);
    }
    for (const ids of [undefined, 5, {}]) {
      expect(() => bpe.decode(ids as number[])).toThrow(expect.objectContaining({ code: "OPTION_VALUE" }) as Error);
    }
    expect(() => bpe.encode("x", { addSpecial: "no" } as object)).toThrow(
      expect.objectContaining({ code: "OPTION_VALUE" }) as Error,
    );
  });

  test("an option that does not exist", () => {
    expect(() => bpe.encode("x", { addSpecials: true } as object)).toThrow(
      expect.objectContaining({ code: "OPTION_UNKNOWN" }) as Error,
    );
  });

  test("the same arrays and ids at opening, without reading an element", () => {
    const unread = {
      elementType: "string",
      length: 2,
      at: fail,
      bytesAt: fail,
      strings: fail,
      toNumbers: fail,
      toStrings: fail,
      [Symbol.iterator]: fail,
    } as const;
    const entries: GgufEntry[] = [
      str(key("model"), "gpt2"),
      { key: key("tokens"), type: "array", value: unread },
      { key: key("merges"), type: "array", value: unread },
    ];
    expect(refusal(entries, checkTokenizerMetadata)).toBeUndefined();
    expect(refusal([...entries, u32(key("eot_token_id"), 2)], checkTokenizerMetadata)).toMatchObject({
      code: "GGUF_TOKENIZER",
      field: key("eot_token_id"),
    });
    expect(refusal([...entries, arr(key("scores"), "float32", [1])], checkTokenizerMetadata)).toMatchObject({
      code: "GGUF_TOKENIZER",
      field: key("scores"),
    });
    expect(refusal([], checkTokenizerMetadata)).toBeUndefined();
  });
});

function fail(): never {
  throw new Error("an element was read");
}

describe("control tokens and text", () => {
  const type = (tokens: readonly string[], types: Readonly<Record<string, number>>): number[] =>
    tokens.map((text) => types[text] ?? NORMAL);

  test("segments are one text, and special tokens are parsed only in segments that allow it", () => {
    const encoded = (...segments: readonly (readonly [string, boolean])[]): string[] =>
      texts(
        bpe,
        bpe.encodeSegments(
          segments.map(([text, parseSpecial]) => ({ text, parseSpecial })),
          { addSpecial: false },
        ),
      );
    expect(encoded(["<|begin|>he", true], ["llo", false])).toEqual(["<|begin|>", "hello"]);
    expect(encoded(["<|beg", true], ["", false], ["in|>", true])).toEqual(["<|begin|>"]);
    const ids = bpe.encodeSegments(
      [
        { text: "<|begin|>", parseSpecial: false },
        { text: "<|begin|>", parseSpecial: true },
        { text: "<|begin|>", parseSpecial: false },
      ],
      { addSpecial: false },
    );
    expect([...ids].filter((id) => id === 0)).toHaveLength(1);
    expect(bpe.decode(ids, { special: true })).toBe("<|begin|>".repeat(3));
    // Halves that meet: neither is all in a segment that may hold one.
    for (const [left, right] of [
      [true, false],
      [false, true],
    ] as const)
      expect(encoded(["<|beg", left], ["in|>", right])).not.toContain("<|begin|>");
    // User-defined tokens are text in every position.
    expect(encoded(["<to", false], ["ol>", true])).toEqual(["<tool>"]);
    expect([...bpe.encodeSegments([{ text: "he", parseSpecial: true }])]).toEqual([...bpe.encode("he")]);
    expect([...bpe.encodeSegments([])]).toEqual([...bpe.encode("")]);
  });

  test("cut anywhere, ordinary segments give the tokens of the whole text", () => {
    const cut = fc.array(fc.tuple(fc.constantFrom("he", "llo", " w", "hi", "é", "<", "|", " ", "\n"), fc.boolean()), {
      maxLength: 12,
    });
    fc.assert(
      fc.property(cut, (parts) => {
        const segments = parts.map(([text, parseSpecial]) => ({ text, parseSpecial }));
        const whole = parts.map(([text]) => text).join("");
        for (const tokenizer of [bpe, spm])
          expect([...tokenizer.encodeSegments(segments)]).toEqual([...tokenizer.encode(whole)]);
      }),
    );
  });

  test("text in a segment gets SentencePiece's space as it does behind a token, and none in the middle", () => {
    const encoded = spm.encodeSegments(
      [
        { text: "<s>", parseSpecial: true },
        { text: "hi<s>hi", parseSpecial: false },
      ],
      { addSpecial: false },
    );
    expect(texts(spm, encoded)).toEqual(["<s>", "▁hi", "<0x3C>", "<0x73>", "<0x3E>", "hi"]);
  });

  test("no merge makes a control token, whatever the vocabulary", () => {
    const spmTokens = ["<unk>", "<s>", "</s>", ...BYTE_TOKENS, "<", "/", "s", ">", "</", "s>", "▁"];
    const merging = make([
      str("tokenizer.ggml.model", "llama"),
      arr("tokenizer.ggml.tokens", "string", spmTokens),
      arr("tokenizer.ggml.token_type", "int32", type(spmTokens, { "<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL })),
      arr(
        "tokenizer.ggml.scores",
        "float32",
        spmTokens.map(() => 0),
      ),
      bool("tokenizer.ggml.add_space_prefix", false),
    ]);
    expect(texts(merging, merging.encode("</s><s>", { addSpecial: false, parseSpecial: false }))).toEqual([
      "</",
      "s>",
      "<",
      "s>",
    ]);
    const bpeTokens = ["<|endoftext|>", "hello", ...SPELLING_OF_BYTE.map(String), "he", "ll", "hell"];
    const entries = (preTokenizer: string): GgufEntry[] => [
      str("tokenizer.ggml.model", "gpt2"),
      str("tokenizer.ggml.pre", preTokenizer),
      arr("tokenizer.ggml.tokens", "string", bpeTokens),
      arr("tokenizer.ggml.token_type", "int32", type(bpeTokens, { "<|endoftext|>": CONTROL, hello: CONTROL })),
      arr("tokenizer.ggml.merges", "string", ["h e", "l l", "he ll", "hell o"]),
      u32("tokenizer.ggml.bos_token_id", 0),
      u32("tokenizer.ggml.eos_token_id", 0),
    ];
    // The second takes words whole, without merges.
    for (const preTokenizer of ["gpt-2", "llama-bpe"]) {
      const guarded = make(entries(preTokenizer));
      expect(texts(guarded, guarded.encode("hello", { addSpecial: false, parseSpecial: false }))).toEqual([
        "hell",
        "o",
      ]);
      expect(texts(guarded, guarded.encode("hello", { addSpecial: false }))).toEqual(["hello"]);
    }
  });

  test("tokens that are spelled like control tokens are no text, though the file calls them user-defined or they are printed", () => {
    const tokens = [
      "<|start|>",
      "<|message|>",
      "<|call|>",
      "<|return|>",
      "<|end|>",
      "<start_of_turn>",
      "<|channel>",
      "<channel|>",
      "<think>",
      "  ",
      ...SPELLING_OF_BYTE.map(String),
    ];
    const harmony = make([
      str("tokenizer.ggml.model", "gpt2"),
      str("tokenizer.ggml.pre", "gpt-2"),
      arr("tokenizer.ggml.tokens", "string", tokens),
      arr(
        "tokenizer.ggml.token_type",
        "int32",
        tokens.map((_, id) => (id < 5 ? CONTROL : id < 10 ? USER_DEFINED : NORMAL)),
      ),
      arr("tokenizer.ggml.merges", "string", ["a b"]),
      u32("tokenizer.ggml.bos_token_id", 0),
      u32("tokenizer.ggml.eos_token_id", 3),
    ]);
    const text = tokens.slice(0, 10).join("");
    const parsed = [...harmony.encode(text, { addSpecial: false })];
    expect(parsed).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const plain = [...harmony.encode(text, { addSpecial: false, parseSpecial: false })];
    expect(plain.filter((id) => id < 10)).toEqual([8, 9]);
    expect(harmony.decode(plain)).toBe(text);
  });

  test("refuses what is no segment", () => {
    const refused = (segments: unknown): unknown => bpe.encodeSegments(segments as never);
    for (const segments of [
      "text",
      [{ text: 5, parseSpecial: true }],
      [{ text: "a" }],
      [{ text: "a", parseSpecial: true, more: 1 }],
      [null],
    ]) {
      expect(() => refused(segments)).toThrow(
        expect.objectContaining({ code: expect.stringMatching(/^OPTION_/) as string }),
      );
    }
  });
});
