// A grammar worker, and the requests to it. State that its thread has lost (vocabulary, grammar, tokens) is sent again,
// and a failure is an error of the request that caused it.

import { GrammarError, ServingError } from "../../errors.js";
import { builtFile } from "../../worker/built-file.js";
import { type CallOutcome, LimitedWorker } from "../../worker/limited-worker.js";
import type { GrammarSpec } from "../grammar-spec.js";
import { grammarInvalid } from "../limits.js";
import type { PackedVocabulary } from "../automaton/packed-vocabulary.js";
import type { GrammarReply, GrammarRequest, PathRequest, TextRequest } from "./thread-message.js";

/** Time limits of a worker. */
export interface GrammarWorkerLimits {
  readonly compileMs: number;
  readonly maskDeadlineMs: number;
  readonly pathMs: number;
}

/** A text that is matched in the worker. */
export interface FollowedText {
  readonly id: number;
  /** All tokens of the text so far. */
  readonly tokens: readonly number[];
  /** Number of tokens that were sent to the worker already. */
  readonly sentTokens: number;
  /** Memory for the mask of the next token; if absent, the finished text is checked. */
  readonly mask?: Uint32Array;
  /** Tokens that may follow, whose masks are written behind the first one. */
  readonly further?: PathRequest;
}

/** What became of a text's request. */
interface Advance {
  readonly tookMs: number;
  /** The tokens of `further` that were followed. */
  readonly path: readonly number[];
}

/**
 * Vocabulary, grammar and tokens may have to be resent one after the other, and once more if the thread dies in
 * between.
 */
const MAX_ATTEMPTS = 6;
const IDLE_MS = 600_000;
/** Requests that may wait: one for each text, and one for each text that ended. */
const MAX_QUEUED = 8192;
const HEAP_MB = 512;
/** Compiling makes many small objects; with 4 MB a schema of 400 objects took 12 % longer. */
const YOUNG_HEAP_MB = 16;
/**
 * Time on top of the limit for compiling, for the thread to notice it, and to build the trie of the vocabulary before.
 */
const COMPILE_SLACK_MS = 5000;
const RESENT_COMPILE_MS = 10_000;
/** Masks take milliseconds, so a full queue is soon empty. */
const RETRY_AFTER_MS = 1000;

/** A worker thread that compiles grammars and computes masks. */
export class GrammarWorker implements AsyncDisposable {
  /** Number of texts that are matched in this worker. */
  texts = 0;
  /** Number of grammars that are being compiled in this worker. */
  compiling = 0;
  readonly #worker: LimitedWorker;
  readonly #vocabulary: PackedVocabulary;
  readonly #limits: GrammarWorkerLimits;
  readonly #closed: number[] = [];

  constructor(vocabulary: PackedVocabulary, limits: GrammarWorkerLimits) {
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

  /** Threads started so far, including replacements. */
  get threadsStarted(): number {
    return this.#worker.threadsStarted;
  }

  /** Compiles a grammar; rejects with a GrammarError if it is invalid or exceeds a limit. */
  async compile(grammar: number, spec: GrammarSpec): Promise<void> {
    this.compiling++;
    try {
      await this.#ask(grammar, spec, undefined);
    } finally {
      this.compiling--;
    }
  }

  /**
   * Writes the mask of a text's next token, and those along a path after it, or checks the finished text; resolves with
   * the time that it took, in milliseconds, and with the path.
   */
  async advance(grammar: number, spec: GrammarSpec, text: FollowedText): Promise<Advance> {
    return this.#ask(grammar, spec, text);
  }

  /** Ends a text. The next request tells the thread; a lost thread has forgotten it anyway. */
  close(text: number): void {
    this.#closed.push(text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker[Symbol.asyncDispose]();
  }

  async #ask(grammar: number, spec: GrammarSpec, text: FollowedText | undefined): Promise<Advance> {
    const { compileMs, maskDeadlineMs, pathMs } = this.#limits;
    const sent = { vocabulary: false, grammar: text === undefined, tokens: false };
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const request: Omit<GrammarRequest, "closed"> = {
        grammar,
        // A grammar that is resent was compiled in time before, and is not refused because the thread is busier now.
        compileMs: text === undefined ? compileMs : RESENT_COMPILE_MS,
        ...(sent.grammar ? { spec } : {}),
        ...(sent.vocabulary ? { vocabulary: this.#vocabulary } : {}),
        ...(text === undefined ? {} : { text: textRequest(text, sent.tokens, pathMs) }),
      };
      const long = sent.grammar || sent.tokens || text?.mask === undefined;
      const reply = await this.#call(request, long ? RESENT_COMPILE_MS + COMPILE_SLACK_MS : maskDeadlineMs);
      if (reply.kind === "done") return reply;
      if (reply.kind === "failed") throw new GrammarError(reply.code, reply.message, { details: reply.details });
      sent[reply.what] = true;
      // A thread without the vocabulary has lost everything else, too.
      if (reply.what === "vocabulary") sent.grammar = sent.tokens = true;
    }
    throw limitError("its thread was lost again and again");
  }

  async #call(request: Omit<GrammarRequest, "closed">, deadlineMs: number): Promise<GrammarReply> {
    const closed = this.#closed.splice(0);
    const outcome = await this.#worker.call<GrammarRequest, GrammarReply>({ ...request, closed }, { deadlineMs });
    const unsent = outcome.kind === "thrown" && outcome.name === "DataCloneError";
    // The thread did not get them; a thread that was lost has forgotten them anyway.
    if (outcome.kind === "full" || unsent) this.#closed.push(...closed);
    if (unsent)
      throw grammarInvalid("grammar", `expected values of JSON, found another (${outcome.message}); leave it out`, {
        unsent,
      });
    return replyOf(outcome);
  }
}

function textRequest(
  { id, tokens, sentTokens, mask, further }: FollowedText,
  all: boolean,
  pathMs: number,
): TextRequest {
  const from = all ? 0 : sentTokens;
  return {
    id,
    from,
    tokens: tokens.slice(from),
    ...(mask === undefined ? {} : { mask }),
    ...(further === undefined ? {} : { further: { ...further, timeMs: pathMs } }),
  };
}

function replyOf(outcome: CallOutcome<GrammarReply>): GrammarReply {
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
