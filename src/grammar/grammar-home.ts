// A thread that follows grammars, and the questions to it: what it has lost it is taught again, and what goes wrong is an
// error of the one who asked.

import { GrammarError, ServingError } from "../errors.js";
import { builtFile } from "../worker/built-file.js";
import { type CallOutcome, LimitedWorker } from "../worker/limited-worker.js";
import type { GrammarSource, GrammarSpec } from "./grammar-spec.js";
import { grammarInvalid } from "./limits.js";
import type { PackedVocabulary } from "./packed-vocabulary.js";
import type { ConversionAnswer, ConversionQuestion, FollowAnswer, FollowQuestion } from "./thread-message.js";

export interface HomeLimits {
  readonly compileDeadlineMs: number;
  readonly maskDeadlineMs: number;
  readonly maxWasmBytes: number;
}

/** One text that is asked about. */
export interface AskedText {
  readonly id: number;
  /** All tokens so far. */
  readonly tokens: readonly number[];
  /** How many of them, at the beginning, are none of the grammar's. */
  readonly skipped: number;
  /** How many of the others the thread heard of. */
  readonly heard: number;
  readonly mask: Uint32Array;
}

/** Vocabulary, grammar and tokens may be lost one after the other, and once more if the thread dies in between. */
const MAX_LESSONS = 6;
const IDLE_MS = 600_000;
/** One for each text, and one for each that ended. */
const MAX_QUEUED = 8192;
const HEAP_MB = 512;
/** A mask takes milliseconds, so that a line of them is soon over. */
const RETRY_AFTER_MS = 1000;

export class GrammarHome implements AsyncDisposable {
  /** Texts that are followed here. */
  texts = 0;
  /** Grammars that are read or compiled here just now. */
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
      maxWasmBytes: limits.maxWasmBytes,
      maxQueued: MAX_QUEUED,
      idleMs: IDLE_MS,
    });
  }

  /** How many threads were lost and replaced. */
  get threadsStarted(): number {
    return this.#worker.threadsStarted;
  }

  /** Rejects with a GrammarError where it is at fault, or takes too much to tell. */
  async convert(spec: GrammarSpec): Promise<GrammarSource> {
    this.compiling++;
    try {
      const answer = await this.#call<ConversionQuestion, ConversionAnswer>({ kind: "convert", spec }, this.#limits.compileDeadlineMs);
      if (answer.kind === "source") return answer.source;
      if (answer.kind === "failed") throw new GrammarError(answer.code, answer.message, { details: answer.details });
      throw limitError(answer.reason);
    } finally {
      this.compiling--;
    }
  }

  async compile(grammar: number, source: GrammarSource): Promise<void> {
    this.compiling++;
    try {
      await this.#ask(grammar, source, undefined);
    } finally {
      this.compiling--;
    }
  }

  /** Writes the mask of the text's next token. */
  async advance(grammar: number, source: GrammarSource, text: AskedText): Promise<void> {
    await this.#ask(grammar, source, text);
  }

  /** Nothing waits for it: the next question says so, or a thread that is lost has forgotten it anyway. */
  close(text: number): void {
    this.#closed.push(text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker[Symbol.asyncDispose]();
  }

  async #ask(grammar: number, source: GrammarSource, text: AskedText | undefined): Promise<void> {
    const taught = { vocabulary: false, grammar: text === undefined, tokens: false, room: false };
    for (let lesson = 0; lesson < MAX_LESSONS; lesson++) {
      const question: Omit<FollowQuestion, "closed"> = {
        kind: "follow",
        alone: taught.room,
        grammar: { id: grammar, ...(taught.grammar ? { source } : {}) },
        ...(taught.vocabulary ? { vocabulary: this.#vocabulary } : {}),
        ...(text === undefined ? {} : { text: askedText(text, taught.tokens) }),
      };
      const { compileDeadlineMs, maskDeadlineMs } = this.#limits;
      const deadlineMs = taught.grammar || taught.tokens ? compileDeadlineMs : maskDeadlineMs;
      const answer = await this.#call<FollowQuestion, FollowAnswer>(question, deadlineMs);
      switch (answer.kind) {
        case "done":
          return;
        case "need":
          taught[answer.what] = true;
          // A thread that has no vocabulary knows nothing else either.
          if (answer.what === "vocabulary" || answer.what === "room") taught.vocabulary = taught.grammar = taught.tokens = true;
          break;
        case "invalid":
          throw new GrammarError("GRAMMAR_INVALID", `[grammar] expected a grammar that a text can follow, found: ${answer.reason}`, { details: { reason: answer.reason } });
        case "limit":
          throw limitError(answer.reason);
        case "refused":
          throw new GrammarError("GRAMMAR_INVALID", `[grammar] expected a token that the mask allowed, found ${answer.token}`, { details: { token: answer.token } });
        default:
          answer satisfies never;
      }
    }
    throw limitError("its thread was lost again and again");
  }

  async #call<Question extends { readonly closed: readonly number[] }, Answer>(question: Omit<Question, "closed">, deadlineMs: number): Promise<Answer | Overrun> {
    const closed = this.#closed.splice(0);
    const outcome = await this.#worker.call<object, Answer>({ ...question, closed }, { deadlineMs });
    const unsent = outcome.kind === "thrown" && outcome.name === "DataCloneError";
    // Nobody heard of them; a thread that is gone has forgotten them.
    if (outcome.kind === "full" || unsent) this.#closed.push(...closed);
    if (unsent) throw grammarInvalid("grammar", `expected values of JSON, found another (${outcome.message}); leave it out`, { unsent });
    return outcomeAnswer(outcome);
  }
}

/** It came to no answer. */
interface Overrun {
  readonly kind: "limit";
  readonly reason: string;
}

function askedText({ id, tokens, skipped, heard, mask }: AskedText, all: boolean): NonNullable<FollowQuestion["text"]> {
  const from = all ? 0 : heard;
  return { id, from, tokens: tokens.slice(skipped + from), mask };
}

function outcomeAnswer<Answer>(outcome: CallOutcome<Answer>): Answer | Overrun {
  switch (outcome.kind) {
    case "answer":
      return outcome.value;
    case "thrown":
      return { kind: "limit", reason: outcome.message };
    case "stopped":
      return { kind: "limit", reason: `the thread that worked on it ${outcome.message}` };
    case "full":
      throw new ServingError("SERVING_QUEUE_FULL", `[grammar] expected room for another text, and ${outcome.message}; try again later`, {
        details: { reason: outcome.message, retryAfterMs: RETRY_AFTER_MS },
      });
    default:
      return outcome satisfies never;
  }
}

function limitError(reason: string): GrammarError {
  return new GrammarError("GRAMMAR_LIMIT", `[grammar] expected a grammar that is followed in little time and memory, found: ${reason}; simplify it`, {
    details: { reason },
  });
}
