// Inside a grammar worker: one vocabulary as a trie, the grammars that were compiled, the texts that follow them.

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
import type { GrammarAnswer, GrammarQuestion, TextQuestion } from "./thread-message.js";

interface Text {
  readonly matcher: GrammarMatcher;
  readonly tokens: number[];
}

type Outcome = "done" | Exclude<GrammarAnswer, { readonly kind: "done" }>;

/** What all grammars may hold together, in states and sets; texts keep theirs as long as they need it. */
const MAX_WEIGHT = 1_000_000;
const DEFAULT_COMPILE_MS = 5000;

let trie: TokenTrie | undefined;
const grammars = new LruCache<number, CompiledGrammar>();
const texts = new Map<number, Text>();

function answer(question: GrammarQuestion): GrammarAnswer {
  const start = performance.now();
  for (const id of question.closed) texts.delete(id);
  try {
    const outcome = follow(question);
    return outcome === "done" ? { kind: "done", tookMs: performance.now() - start } : outcome;
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const { code, message, details } = error;
    return { kind: "failed", code, message, details };
  }
}

function follow({ grammar: id, spec, vocabulary, compileMs = DEFAULT_COMPILE_MS, text }: GrammarQuestion): Outcome {
  if (vocabulary !== undefined) trie ??= TokenTrie.of(vocabulary);
  if (trie === undefined) return { kind: "need", what: "vocabulary" };
  let grammar = grammars.get(id);
  if (grammar === undefined) {
    if (spec === undefined) return { kind: "need", what: "grammar" };
    grammar = withinTime(compileMs, () => compileGrammar(spec));
    makeRoom();
    grammars.set(id, grammar);
  }
  // A grammar that no text can begin with is told of at once.
  if (text === undefined)
    return new GrammarMatcher(grammar, trie).writeMask(new Uint32Array(Math.ceil(trie.vocabulary.size / 32)))
      ? "done"
      : noToken();
  return followText(grammar, trie, text);
}

function followText(grammar: CompiledGrammar, tokens: TokenTrie, question: TextQuestion): Outcome {
  let text = texts.get(question.id);
  if (text === undefined || text.tokens.length !== question.from) {
    if (question.from !== 0) return { kind: "need", what: "tokens" };
    text = { matcher: new GrammarMatcher(grammar, tokens), tokens: [] };
    texts.set(question.id, text);
  }
  for (const token of question.tokens) {
    if (!text.matcher.accept(token))
      throw grammarInvalid("text", `expected a token that the mask allowed, found ${token}`, { token });
    text.tokens.push(token);
  }
  if (question.mask === undefined) return check(grammar, tokens, text);
  return text.matcher.writeMask(question.mask) ? "done" : noToken();
}

/** The finished text against its grammar, by other means than those it was written with. */
function check(grammar: CompiledGrammar, { vocabulary: { offsets, bytes } }: TokenTrie, { tokens }: Text): Outcome {
  const whole = Buffer.concat(tokens.map((token) => bytes.subarray(offsets[token], offsets[token + 1])));
  if (recognizes(grammar, whole)) return "done";
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

/** Evicts the least recently used grammars. Their weights grow while they are followed, so they are summed up anew. */
function makeRoom(): void {
  const weight = (): number => [...grammars.values()].reduce((sum, known) => sum + known.weight, 0);
  while (weight() > MAX_WEIGHT) grammars.evictOldest();
}

answerCalls(answer);
