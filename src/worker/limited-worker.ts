// Runs work that untrusted input can make endless or huge in threads with limits: a call that exceeds a limit is an
// outcome for its caller, the thread is replaced, and waiting calls continue. Calls of one worker are answered in order,
// one at a time for each thread.
//
// How to use it. The inner side is a module of its own, `double-thread.ts`:
//     answerCalls((question: number): number => question * 2);
// and the outer side calls it:
//     const worker = new LimitedWorker({ name: "double", file: builtFile(import.meta.url, "./double-thread.js"), deadlineMs: 1000 });
//     const outcome = await worker.call<number, number>(21, { signal });
//     if (outcome.kind === "answer") outcome.value … else "thrown", "stopped" (time, memory, crash) or "full"
// Questions and answers are cloned (see structuredClone); SharedArrayBuffers are shared, `new Transferred(answer, buffers)`
// transfers buffers. State inside a thread is lost when it is replaced: let the inner side answer that it does not know
// the state, and resend it. `threads: 1` and `idleMs: Infinity` keep one thread's state as long as nothing fails.
//
// The heap limit is V8's: it terminates a thread that fills up gradually, but a single allocation far beyond it crashes
// the whole process. The inner side has to limit single texts and lists itself.

import { DisposedError } from "../errors.js";
import { Lifetime } from "../lifetime.js";
import { optionalCount, refuseUnknownKeys, refuseValue } from "../options.js";
import { type Call, type CallOutcome, LimitedThread, type ThreadLimits } from "./limited-thread.js";

export type { CallOutcome } from "./limited-thread.js";

/** Options of a limited worker. */
export interface LimitedWorkerOptions {
  /** The worker's name in messages. */
  readonly name: string;
  /** The URL of the built module; see builtFile. */
  readonly file: URL;
  /** The time limit of one call, from when its thread begins with it. */
  readonly deadlineMs: number;
  readonly threads?: number;
  readonly heapMb?: number;
  /** The limit of the young generation of each thread's heap, all of which it may occupy. */
  readonly youngHeapMb?: number;
  readonly stackMb?: number;
  /** How many calls may wait; the outcome of one more is "full". */
  readonly maxQueued?: number;
  /** A thread without calls ends after this time; Infinity: never. */
  readonly idleMs?: number;
  readonly startMs?: number;
}

/** Options of one call. */
interface CallOptions {
  /** Aborting rejects the promise with the signal's reason. A call that has begun runs to its end or deadline. */
  readonly signal?: AbortSignal | undefined;
  /** Overrides the worker's deadline. */
  readonly deadlineMs?: number | undefined;
}

const OPTIONS = [
  "name",
  "file",
  "deadlineMs",
  "threads",
  "heapMb",
  "youngHeapMb",
  "stackMb",
  "maxQueued",
  "idleMs",
  "startMs",
] as const satisfies readonly (keyof LimitedWorkerOptions)[];
const PLACE = "worker";
const MAX_THREADS = 16;
const MAX_DEADLINE_MS = 3_600_000;
const DEFAULTS = {
  threads: 1,
  heapMb: 128,
  youngHeapMb: 4,
  stackMb: 4,
  maxQueued: 256,
  idleMs: 60_000,
  startMs: 20_000,
} as const;

/** A pool of threads with limits on time and memory for work on untrusted input. */
export class LimitedWorker implements AsyncDisposable {
  readonly name: string;
  readonly #file: URL;
  readonly #limits: ThreadLimits;
  readonly #size: number;
  readonly #deadlineMs: number;
  readonly #maxQueued: number;
  readonly #idleMs: number;
  readonly #queue: Call[] = [];
  readonly #threads = new Set<LimitedThread>();
  readonly #lifetime: Lifetime;
  #started = 0;
  #onEmpty: () => void = () => {};

  constructor(options: LimitedWorkerOptions) {
    refuseUnknownKeys(PLACE, options, OPTIONS);
    const count = (name: keyof typeof DEFAULTS, min: number, max: number): number =>
      optionalCount(PLACE, name, options[name], min, max) ?? DEFAULTS[name];
    this.name = options.name;
    this.#file = options.file;
    this.#deadlineMs = checkedDeadline(options.deadlineMs);
    this.#size = count("threads", 1, MAX_THREADS);
    this.#maxQueued = count("maxQueued", 0, 1e6);
    this.#idleMs = options.idleMs === Infinity ? Infinity : count("idleMs", 0, 2 ** 31 - 1);
    this.#limits = {
      heapMb: count("heapMb", 8, 65_536),
      youngHeapMb: count("youngHeapMb", 1, 1024),
      stackMb: count("stackMb", 1, 4),
      startMs: count("startMs", 1, MAX_DEADLINE_MS),
    };
    this.#lifetime = new Lifetime(`the worker "${this.name}"`);
  }

  /** How many threads have been started so far: one more than were lost, as long as there are calls. */
  get threadsStarted(): number {
    return this.#started;
  }

  get queued(): number {
    return this.#queue.length;
  }

  call<Question, Answer>(question: Question, { signal, deadlineMs }: CallOptions = {}): Promise<CallOutcome<Answer>> {
    this.#lifetime.assertAlive();
    const limitMs = deadlineMs === undefined ? this.#deadlineMs : checkedDeadline(deadlineMs);
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason as Error);
      const abort = (): void => {
        const place = this.#queue.indexOf(call);
        if (place !== -1) this.#queue.splice(place, 1);
        reject(signal?.reason as Error);
      };
      const call: Call = {
        question,
        deadlineMs: limitMs,
        settle: (outcome) => {
          signal?.removeEventListener("abort", abort);
          if (this.#lifetime.disposed) reject(new DisposedError(`the worker "${this.name}"`));
          else resolve(outcome as CallOutcome<Answer>);
        },
      };
      const idle = [...this.#threads].find((thread) => thread.idle);
      if (idle === undefined && this.#threads.size >= this.#size && this.#queue.length >= this.#maxQueued) {
        return resolve({ kind: "full", message: `${this.#queue.length} calls are waiting already` });
      }
      signal?.addEventListener("abort", abort, { once: true });
      if (idle !== undefined) idle.work(call);
      else if (this.#threads.size < this.#size) this.#start(call);
      else this.#queue.push(call);
    });
  }

  /** Terminates all threads; waiting calls reject. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#lifetime.end()) {
      for (const thread of this.#threads) thread.end();
      for (const call of this.#queue.splice(0)) call.settle({ kind: "full", message: "the worker has been disposed" });
    }
    if (this.#threads.size === 0) return;
    await new Promise<void>((resolve) => {
      const before = this.#onEmpty;
      this.#onEmpty = () => {
        before();
        resolve();
      };
    });
  }

  #start(first: Call): void {
    this.#started++;
    const thread = LimitedThread.start(this.#file, this.#limits, first);
    if (thread === undefined) return this.#replace();
    this.#threads.add(thread);
    thread.onIdle = () => {
      const call = this.#queue.shift();
      if (call === undefined) thread.rest(this.#idleMs);
      else thread.work(call);
    };
    thread.onGone = () => {
      this.#threads.delete(thread);
      this.#replace();
    };
  }

  /** Starts another thread if there are calls for it. */
  #replace(): void {
    const call = this.#lifetime.disposed ? undefined : this.#queue.shift();
    if (call !== undefined) this.#start(call);
    else if (this.#threads.size === 0) this.#onEmpty();
  }
}

function checkedDeadline(deadlineMs: number): number {
  if (typeof deadlineMs === "number" && deadlineMs > 0 && deadlineMs <= MAX_DEADLINE_MS) return deadlineMs;
  return refuseValue(PLACE, "deadlineMs", `milliseconds up to ${MAX_DEADLINE_MS}`, deadlineMs);
}
