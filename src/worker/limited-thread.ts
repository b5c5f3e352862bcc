// One thread from start to end: one call at a time, each with a deadline. A call that overruns, needs too much memory or
// brings the thread down ends the thread; what becomes of it is a value. Its owner starts another one.

import { Worker } from "node:worker_threads";
import type { ThreadReply } from "./call-message.js";

export interface ThreadLimits {
  /** Of JavaScript objects that live long, and of new ones. V8 ends the thread at it. */
  readonly heapMb: number;
  readonly youngHeapMb: number;
  readonly stackMb: number;
  /** For loading the module: much of a start on a busy machine is waiting. */
  readonly startMs: number;
}

export type CallOutcome<Answer> =
  | { readonly kind: "answer"; readonly value: Answer }
  /** The function threw; the thread lives on. */
  | { readonly kind: "thrown"; readonly name: string; readonly message: string }
  /** The thread is gone, and with it all it knew. The message is the rest of a sentence. */
  | { readonly kind: "stopped"; readonly limit: "time" | "memory" | "crash"; readonly message: string }
  /** Too many calls wait already. */
  | { readonly kind: "full"; readonly message: string };

type Stopped = Extract<CallOutcome<never>, { kind: "stopped" }>;

export interface Call {
  readonly question: unknown;
  readonly deadlineMs: number;
  settle(outcome: CallOutcome<unknown>): void;
}

const MAX_SHOWN_CHARACTERS = 300;

export class LimitedThread {
  /** It may take a call: the last one is done, or its module is loaded. */
  onIdle: () => void = () => {};
  /** Nothing of it is left; told once. */
  onGone: () => void = () => {};
  readonly #worker: Worker;
  #call: Call | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ready = false;
  #stopped: Stopped | undefined;

  /** Where the system has no thread to give, the call is told so, and there is none. */
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
    // Nothing of how this process was started is for the thread, nor what it prints for the terminal.
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
    this.#worker.stdout.resume();
    this.#worker.stderr.resume();
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
      // It cannot be cloned, and was not sent.
      this.#hear({
        kind: "thrown",
        name: "DataCloneError",
        message: error instanceof Error ? error.message : String(error),
      });
    }
  }

  /** Does not keep the process alive, and ends after so long without a call. */
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
      // When this process was busy itself, an answer in time may wait behind the timer: it is heard first.
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
    return { kind: "stopped", limit: "memory", message: "needed more memory than it may have" };
  return { kind: "stopped", limit: "crash", message: `died: ${message.slice(0, MAX_SHOWN_CHARACTERS)}` };
}
