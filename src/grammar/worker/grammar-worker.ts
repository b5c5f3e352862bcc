// A grammar worker, and the questions to it: what it has lost it is sent again, and what goes wrong is an error of the one
// who asked.

import { GrammarError, ServingError } from "../../errors.js";
import { builtFile } from "../../worker/built-file.js";
import { type CallOutcome, LimitedWorker } from "../../worker/limited-worker.js";
import type { GrammarSpec } from "../grammar-spec.js";
import { grammarInvalid } from "../limits.js";
import type { PackedVocabulary } from "../automaton/packed-vocabulary.js";
import type { GrammarAnswer, GrammarQuestion, TextQuestion } from "./thread-message.js";

export interface HomeLimits {
  readonly compileMs: number;
  readonly maskDeadlineMs: number;
}

/** One text that is asked about. */
export interface AskedText {
  readonly id: number;
  /** All tokens so far. */
  readonly tokens: readonly number[];
  /** How many of them the worker heard of. */
  readonly heard: number;
  /** Without a mask the finished text is checked. */
  readonly mask?: Uint32Array;
}

/** Vocabulary, grammar and tokens may be lost one after the other, and once more if the thread dies in between. */
const MAX_ATTEMPTS = 6;
const IDLE_MS = 600_000;
/** One for each text, and one for each that ended. */
const MAX_QUEUED = 8192;
const HEAP_MB = 512;
/** Compiling makes many small objects: with 4 MB a schema of 400 objects took 12 % longer. */
const YOUNG_HEAP_MB = 16;
/** On top of the time that compiling is given: for the thread to notice, and to make a trie of the vocabulary before. */
const COMPILE_SLACK_MS = 5000;
const RESENT_COMPILE_MS = 10_000;
/** A mask takes milliseconds, so that a queue of them is soon over. */
const RETRY_AFTER_MS = 1000;

export class GrammarHome implements AsyncDisposable {
  /** Texts that are followed here. */
  texts = 0;
  /** Grammars that are compiled here just now. */
  compiling = 0;
  readonly #worker: LimitedWorker;
  readonly #vocabulary: PackedVocabulary;
  readonly #limits: HomeLimits;
  readonly #closed: number[] = [];

  constructor(vocabulary: PackedVocabulary, limits: HomeLimits) {
    this.#vocabulary = vocabulary;
    this.#limits = limits;
    this.#worker = new LimitedWorker({
      name: "grammar",
      file: builtFile(import.meta.url, "./grammar-thread.js"),
      deadlineMs: limits.maskDeadlineMs,
      heapMb: HEAP_MB,
      youngHeapMb: YOUNG_HEAP_MB,
      maxQueued: MAX_QUEUED,
      idleMs: IDLE_MS,
    });
  }

  /** How many threads were lost and replaced. */
  get threadsStarted(): number {
    return this.#worker.threadsStarted;
  }

  /** Rejects with a GrammarError where it is at fault, or takes too much to compile. */
  async compile(grammar: number, spec: GrammarSpec): Promise<void> {
    this.compiling++;
    try {
      await this.#ask(grammar, spec, undefined);
    } finally {
      this.compiling--;
    }
  }

  /** Writes the mask of the text's next token, or checks the finished text; resolves to the time that it took, in milliseconds. */
  async advance(grammar: number, spec: GrammarSpec, text: AskedText): Promise<number> {
    return this.#ask(grammar, spec, text);
  }

  /** Nothing waits for it: the next question says so, or a thread that is lost has forgotten it anyway. */
  close(text: number): void {
    this.#closed.push(text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker[Symbol.asyncDispose]();
  }

  async #ask(grammar: number, spec: GrammarSpec, text: AskedText | undefined): Promise<number> {
    const { compileMs, maskDeadlineMs } = this.#limits;
    const sent = { vocabulary: false, grammar: text === undefined, tokens: false };
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const question: Omit<GrammarQuestion, "closed"> = {
        grammar,
        // One that is sent again was compiled in time before: it is not refused for a thread that is busier now.
        compileMs: text === undefined ? compileMs : RESENT_COMPILE_MS,
        ...(sent.grammar ? { spec } : {}),
        ...(sent.vocabulary ? { vocabulary: this.#vocabulary } : {}),
        ...(text === undefined ? {} : { text: textQuestion(text, sent.tokens) }),
      };
      const long = sent.grammar || sent.tokens || text?.mask === undefined;
      const answer = await this.#call(question, long ? RESENT_COMPILE_MS + COMPILE_SLACK_MS : maskDeadlineMs);
      if (answer.kind === "done") return answer.tookMs;
      if (answer.kind === "failed") throw new GrammarError(answer.code, answer.message, { details: answer.details });
      sent[answer.what] = true;
      // A thread that has no vocabulary knows nothing else either.
      if (answer.what === "vocabulary") sent.grammar = sent.tokens = true;
    }
    throw limitError("its thread was lost again and again");
  }

  async #call(question: Omit<GrammarQuestion, "closed">, deadlineMs: number): Promise<GrammarAnswer> {
    const closed = this.#closed.splice(0);
    const outcome = await this.#worker.call<GrammarQuestion, GrammarAnswer>({ ...question, closed }, { deadlineMs });
    const unsent = outcome.kind === "thrown" && outcome.name === "DataCloneError";
    // Nobody heard of them; a thread that is gone has forgotten them.
    if (outcome.kind === "full" || unsent) this.#closed.push(...closed);
    if (unsent)
      throw grammarInvalid("grammar", `expected values of JSON, found another (${outcome.message}); leave it out`, {
        unsent,
      });
    return outcomeAnswer(outcome);
  }
}

function textQuestion({ id, tokens, heard, mask }: AskedText, all: boolean): TextQuestion {
  const from = all ? 0 : heard;
  return { id, from, tokens: tokens.slice(from), ...(mask === undefined ? {} : { mask }) };
}

function outcomeAnswer(outcome: CallOutcome<GrammarAnswer>): GrammarAnswer {
  switch (outcome.kind) {
    case "answer":
      return outcome.value;
    case "thrown":
      throw limitError(outcome.message);
    case "stopped":
      throw limitError(`the thread that worked on it ${outcome.message}`);
    case "full":
      throw new ServingError(
        "SERVING_QUEUE_FULL",
        `[grammar] expected room for another text, and ${outcome.message}; try again later`,
        {
          details: { reason: outcome.message, retryAfterMs: RETRY_AFTER_MS },
        },
      );
    default:
      return outcome satisfies never;
  }
}

function limitError(reason: string): GrammarError {
  return new GrammarError(
    "GRAMMAR_LIMIT",
    `[grammar] expected a grammar that is followed in little time and memory, found: ${reason}; simplify it`,
    {
      details: { reason },
    },
  );
}
