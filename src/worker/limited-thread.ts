// One thread from start to end: one call at a time, each with a deadline. A call that exceeds its time or memory, or
// crashes the thread, terminates the thread; the outcome is a value. The owner starts another thread.

import { Worker } from "node:worker_threads";
import type { ThreadReply } from "./call-message.js";

/** The limits of one thread. */
export interface ThreadLimits {
  /** The limit of the old generation of the heap. V8 terminates the thread when it is reached. */
  readonly heapMb: number;
  /** The limit of the young generation of the heap. */
  readonly youngHeapMb: number;
  readonly stackMb: number;
  /** The time for loading the module, generous because a busy machine delays a start. */
  readonly startMs: number;
}

/** The outcome of a call: an answer, or why there is none. */
export type CallOutcome<Answer> =
  | { readonly kind: "answer"; readonly value: Answer }
  /** The function threw; the thread continues. */
  | { readonly kind: "thrown"; readonly name: string; readonly message: string }
  /** The thread was terminated, and its state is lost. `message` is the end of a sentence. */
  | { readonly kind: "stopped"; readonly limit: "time" | "memory" | "crash"; readonly message: string }
  /** The queue of calls is full. */
  | { readonly kind: "full"; readonly message: string };

type Stopped = Extract<CallOutcome<never>, { kind: "stopped" }>;

/** A call in a thread: the question, its deadline and where the outcome goes. */
export interface Call {
  readonly question: unknown;
  readonly deadlineMs: number;
  settle(outcome: CallOutcome<unknown>): void;
}

const MAX_SHOWN_CHARACTERS = 300;

/** One worker thread with limits, one call at a time. */
export class LimitedThread {
  /** Called when the thread can take a call: its module is loaded, or the last call is done. */
  onIdle: () => void = () => {};
  /** Called once, when the thread has ended. */
  onGone: () => void = () => {};
  readonly #worker: Worker;
  #call: Call | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ready = false;
  #stopped: Stopped | undefined;

  /** Starts a thread with its first call; if the system refuses, that call fails and undefined is returned. */
  static start(file: URL, limits: ThreadLimits, first: Call): LimitedThread | undefined {
    try {
      return new LimitedThread(file, limits, first);
    } catch (error) {
      first.settle(crash(error));
      return undefined;
    }
  }

  private constructor(file: URL, limits: ThreadLimits, first: Call) {
    this.#call = first;
    // The thread inherits neither this process's arguments nor its terminal; see discardOutput for what it prints.
    this.#worker = new Worker(file, {
      env: {},
      execArgv: [],
      stdout: true,
      stderr: true,
      resourceLimits: {
        maxOldGenerationSizeMb: limits.heapMb,
        maxYoungGenerationSizeMb: limits.youngHeapMb,
        stackSizeMb: limits.stackMb,
      },
    });
    this.#worker.on("message", (reply: ThreadReply) => this.#hear(reply));
    this.#worker.on("messageerror", (error) => this.#stop(crash(error)));
    this.#worker.on("error", (error) => this.#stop(crash(error)));
    this.#worker.on("exit", () => this.#gone());
    this.#startTimer(limits.startMs, "had not started");
  }

  get idle(): boolean {
    return this.#ready && this.#call === undefined && this.#stopped === undefined;
  }

  work(call: Call): void {
    clearTimeout(this.#timer);
    this.#call = call;
    this.#worker.ref();
    this.#startTimer(call.deadlineMs, "had not ended");
    try {
      this.#worker.postMessage(call.question, []);
    } catch (error) {
      // The message cannot be cloned, and was not sent.
      this.#hear({
        kind: "thrown",
        name: "DataCloneError",
        message: error instanceof Error ? error.message : String(error),
      });
    }
  }

  /** Marks the thread as idle: it does not keep the process alive, and ends after `idleMs` without a call. */
  rest(idleMs: number): void {
    this.#worker.unref();
    if (idleMs === Infinity) return;
    this.#timer = setTimeout(() => this.end(), idleMs).unref();
  }

  end(): void {
    this.#stop({ kind: "stopped", limit: "crash", message: "was ended" });
  }

  #hear(reply: ThreadReply): void {
    if (this.#stopped !== undefined) return;
    clearTimeout(this.#timer);
    const call = this.#call;
    this.#call = undefined;
    if (reply.kind === "ready") {
      this.#ready = true;
      if (call !== undefined) return this.work(call);
    } else {
      call?.settle(reply);
    }
    this.onIdle();
  }

  #startTimer(limitMs: number, what: string): void {
    this.#timer = setTimeout(() => {
      // If this process was busy, an answer in time may be queued behind the timer: it is handled first.
      const call = this.#call;
      setImmediate(() => {
        if (this.#call !== call) return;
        this.#stop({ kind: "stopped", limit: "time", message: `${what} after ${limitMs / 1000} s` });
      });
    }, limitMs);
  }

  #stop(how: Stopped): void {
    clearTimeout(this.#timer);
    if (this.#stopped !== undefined) return;
    this.#stopped = how;
    const call = this.#call;
    this.#call = undefined;
    void this.#worker.terminate();
    call?.settle(how);
  }

  #gone(): void {
    this.#stop({ kind: "stopped", limit: "crash", message: "ended by itself" });
    this.onGone();
  }
}

function crash(error: unknown): Stopped {
  const { code, message } =
    error instanceof Error ? (error as NodeJS.ErrnoException) : { code: undefined, message: String(error) };
  if (code === "ERR_WORKER_OUT_OF_MEMORY")
    return { kind: "stopped", limit: "memory", message: "exceeded its memory limit" };
  return { kind: "stopped", limit: "crash", message: `died: ${message.slice(0, MAX_SHOWN_CHARACTERS)}` };
}
