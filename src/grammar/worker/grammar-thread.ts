// The code of a grammar worker's thread: one vocabulary as a trie, the compiled grammars, and the texts that are
// matched against them.

import { GrammarError } from "../../errors.js";
import { LruCache } from "../../lru.js";
import { answerCalls } from "../../worker/answer-calls.js";
import type { CompiledGrammar } from "../automaton/compiled-grammar.js";
import { compileGrammar } from "../compile-grammar.js";
import { GrammarMatcher } from "../automaton/matcher.js";
import { recognizes } from "../automaton/recognizer.js";
import { TokenTrie } from "../automaton/token-trie.js";
import { withinTime } from "../compile-time.js";
import { grammarInvalid } from "../limits.js";
import { writePath } from "../automaton/path-masks.js";
import type { GrammarReply, GrammarRequest, TextRequest } from "./thread-message.js";

interface Text {
  readonly matcher: GrammarMatcher;
  readonly tokens: number[];
}

/** The tokens that were followed after the text, or why nothing was done. */
type Outcome = readonly number[] | Exclude<GrammarReply, { readonly kind: "done" }>;

const DONE: readonly number[] = [];

/**
 * Weight of all cached grammars together, in states; texts keep theirs as long as they need them. With 1,000,000 a server
 * that got a new schema with every request grew to 1.4 GiB; this is some dozens of ordinary schemas for each worker.
 */
const MAX_WEIGHT = 150_000;
const DEFAULT_COMPILE_MS = 5000;

let trie: TokenTrie | undefined;
const grammars = new LruCache<number, CompiledGrammar>();
const texts = new Map<number, Text>();

function handle(request: GrammarRequest): GrammarReply {
  const start = performance.now();
  for (const id of request.closed) texts.delete(id);
  try {
    const outcome = follow(request);
    return "kind" in outcome ? outcome : { kind: "done", tookMs: performance.now() - start, path: outcome };
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const { code, message, details } = error;
    return { kind: "failed", code, message, details };
  }
}

function follow({ grammar: id, spec, vocabulary, compileMs = DEFAULT_COMPILE_MS, text }: GrammarRequest): Outcome {
  if (vocabulary !== undefined) trie ??= TokenTrie.of(vocabulary);
  if (trie === undefined) return { kind: "missing", what: "vocabulary" };
  let grammar = grammars.get(id);
  if (grammar === undefined) {
    if (spec === undefined) return { kind: "missing", what: "grammar" };
    grammar = withinTime(compileMs, () => compileGrammar(spec));
    makeRoom();
    grammars.set(id, grammar);
  }
  // A grammar that no token can begin is reported at once.
  if (text === undefined)
    return new GrammarMatcher(grammar, trie).writeMask(new Uint32Array(Math.ceil(trie.vocabulary.size / 32)))
      ? DONE
      : noToken();
  return followText(grammar, trie, text);
}

function followText(grammar: CompiledGrammar, tokens: TokenTrie, request: TextRequest): Outcome {
  let text = texts.get(request.id);
  if (text === undefined || text.tokens.length !== request.from) {
    if (request.from !== 0) return { kind: "missing", what: "tokens" };
    text = { matcher: new GrammarMatcher(grammar, tokens), tokens: [] };
    texts.set(request.id, text);
  }
  for (const token of request.tokens) {
    if (!text.matcher.accept(token))
      throw grammarInvalid("text", `expected a token that the mask allowed, found ${token}`, { token });
    text.tokens.push(token);
  }
  if (request.mask === undefined) return check(grammar, tokens, text);
  const { mask, further } = request;
  const words = mask.length / (1 + (further?.most ?? 0));
  if (!text.matcher.writeMask(mask.subarray(0, words))) return noToken();
  return further === undefined ? DONE : writePath(text.matcher, mask, words, further);
}

/** Checks a finished text against its grammar, independently of the code that made its masks. */
function check(grammar: CompiledGrammar, { vocabulary: { offsets, bytes } }: TokenTrie, { tokens }: Text): Outcome {
  const whole = Buffer.concat(tokens.map((token) => bytes.subarray(offsets[token], offsets[token + 1])));
  if (recognizes(grammar, whole)) return DONE;
  throw grammarInvalid(
    "text",
    "expected a finished text of the grammar, found one that is none; this is a mistake in rocmforge",
  );
}

function noToken(): never {
  throw grammarInvalid(
    "grammar",
    "expected a grammar that tokens of the model's vocabulary can follow, found a place where none can",
  );
}

/** Evicts the least recently used grammars. Their weights grow while they are used, so they are summed up each time. */
function makeRoom(): void {
  const weight = (): number => [...grammars.values()].reduce((sum, known) => sum + known.weight, 0);
  while (weight() > MAX_WEIGHT) grammars.evictOldest();
}

answerCalls(handle);
