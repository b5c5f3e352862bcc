// A pool of compiler processes, started on demand and ended after some idle time. If a process crashes or exceeds its
// deadline, that is the result of its request; the next request gets a new process. A process that ends before it has begun
// with a request, as an idle one does if the system kills it for its memory, tells nothing about it: another process gets it.

import { type ChildProcess, fork } from "node:child_process";
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { packageFile } from "../../../../package-files.js";
import type { CompileAnswer, CompileMessage, CompileQuestion } from "./compile-message.js";
import type { DriverKind } from "./driver.js";
import { gpuError } from "./gpu-error.js";

/** The compiler's answer, or how its process ended, worded as the rest of a sentence. */
export type PoolAnswer = CompileAnswer | { readonly died: string };

interface CompilePoolOptions {
  readonly processes?: number;
  readonly deadlineMs?: number;
}

const MAX_PROCESSES = 16;
/** Long enough for the largest kernel on a busy machine with two cores. */
const DEADLINE_MS = 180_000;
const IDLE_MS = 2000;
/** Characters kept of a crashed compiler's output: the reason is at its end. */
const MAX_LAST_WORDS = 2000;
const MAX_SHOWN_CHARACTERS = 300;
/** A request fails when this many processes have ended before they began with it. */
const MAX_LOST = 3;

const UNWANTED: PoolAnswer = { died: "was cancelled" };

interface Job {
  readonly question: CompileQuestion;
  /** Processes that ended before they began with the question. */
  lost: number;
  settle(answer: PoolAnswer): void;
}

/** Compiles in child processes, several at a time, because a compiler may crash. */
export class CompilePool {
  readonly #kind: DriverKind;
  readonly #library: string;
  readonly #size: number;
  readonly #deadlineMs: number;
  readonly #queue: Job[] = [];
  readonly #workers = new Set<Worker>();

  constructor(
    kind: DriverKind,
    library: string,
    { processes = availableParallelism(), deadlineMs = DEADLINE_MS }: CompilePoolOptions = {},
  ) {
    this.#kind = kind;
    this.#library = library;
    this.#size = Math.max(1, Math.min(processes, MAX_PROCESSES));
    this.#deadlineMs = deadlineMs;
  }

  /** `signal` cancels a compilation, if need be by ending the process that runs it. */
  compile(question: CompileQuestion, signal?: AbortSignal): Promise<PoolAnswer> {
    const path = childPath();
    return new Promise((resolve) => {
      const abort = (): void => this.#drop(job);
      const job: Job = {
        question,
        lost: 0,
        settle: (answer) => {
          signal?.removeEventListener("abort", abort);
          resolve(answer);
        },
      };
      if (signal?.aborted === true) return resolve(UNWANTED);
      signal?.addEventListener("abort", abort);
      this.#queue.push(job);
      const idle = [...this.#workers].find((worker) => !worker.busy);
      if (idle !== undefined) this.#next(idle);
      else if (this.#workers.size < this.#size) this.#start(path);
    });
  }

  #drop(job: Job): void {
    const place = this.#queue.indexOf(job);
    if (place !== -1) this.#queue.splice(place, 1);
    for (const worker of this.#workers) worker.drop(job);
    job.settle(UNWANTED);
  }

  #start(path: string): void {
    const worker = new Worker(path, [this.#kind, this.#library], this.#deadlineMs);
    this.#workers.add(worker);
    worker.onIdle = () => this.#next(worker);
    worker.onLost = (job) => void this.#queue.unshift(job);
    worker.onGone = () => {
      this.#workers.delete(worker);
      if (this.#queue.length > 0 && this.#workers.size < this.#size) this.#start(path);
    };
    this.#next(worker);
  }

  #next(worker: Worker): void {
    const job = this.#queue.shift();
    if (job === undefined) worker.rest();
    else worker.work(job);
  }
}

class Worker {
  onIdle: () => void = () => {};
  /** Called, before `onGone`, with a job that the process has not begun with. */
  onLost: (job: Job) => void = () => {};
  onGone: () => void = () => {};
  readonly #child: ChildProcess;
  readonly #deadlineMs: number;
  #job: Job | undefined;
  #hasBegun = false;
  #timer: NodeJS.Timeout | undefined;
  #lastWords = "";
  #late = false;
  #gone = false;

  constructor(path: string, args: readonly string[], deadlineMs: number) {
    this.#deadlineMs = deadlineMs;
    // The child inherits none of this process's flags: no inspector, no loaders.
    this.#child = fork(path, args, {
      serialization: "advanced",
      execArgv: [],
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#lastWords = (this.#lastWords + text).slice(-MAX_LAST_WORDS);
    });
    this.#child.on("message", (message: CompileMessage) => {
      if ("begun" in message) this.#hasBegun = true;
      else this.#finish(message);
    });
    this.#child.on("error", (error) => this.#end(`could not be started or reached: ${error.message}`));
    // At "close" all of its output has been read.
    this.#child.on("close", (status, signal) =>
      this.#end(signal === null ? `ended with status ${status}` : `was ended by ${signal}`),
    );
  }

  get busy(): boolean {
    return this.#job !== undefined;
  }

  work(job: Job): void {
    clearTimeout(this.#timer);
    this.#job = job;
    this.#hasBegun = false;
    this.#keepAlive(true);
    this.#timer = setTimeout(() => {
      this.#late = true;
      this.#child.kill("SIGKILL");
    }, this.#deadlineMs);
    this.#child.send(job.question, (error) => {
      if (error !== null) this.#end(`could not be reached: ${error.message}`);
    });
  }

  /** Ends the process if it is working on this job. */
  drop(job: Job): void {
    if (this.#job !== job) return;
    this.#hasBegun = true;
    this.#end("was cancelled");
  }

  /** Keeps the idle process for a while, without keeping this process alive. */
  rest(): void {
    this.#keepAlive(false);
    this.#timer = setTimeout(() => this.#dismiss(), IDLE_MS).unref();
  }

  #finish(answer: CompileAnswer): void {
    clearTimeout(this.#timer);
    const job = this.#job;
    this.#job = undefined;
    job?.settle(answer);
    this.onIdle();
  }

  #dismiss(): void {
    if (this.#gone) return;
    this.#gone = true;
    if (this.#child.connected) this.#child.disconnect();
    this.onGone();
  }

  #end(how: string): void {
    clearTimeout(this.#timer);
    const job = this.#job;
    this.#job = undefined;
    if (job !== undefined && !this.#hasBegun && !this.#late && ++job.lost < MAX_LOST) this.onLost(job);
    else
      job?.settle({
        died: this.#late ? `had not ended after ${this.#deadlineMs / 1000} s` : `${how}${this.#saying()}`,
      });
    if (this.#gone) return;
    this.#gone = true;
    this.#child.kill("SIGKILL");
    this.onGone();
  }

  #saying(): string {
    const lines = this.#lastWords.split("\n").map((text) => text.trim());
    const line = lines.findLast((text) => text !== "");
    return line === undefined ? "" : `, saying "${line.slice(0, MAX_SHOWN_CHARACTERS)}"`;
  }

  #keepAlive(needed: boolean): void {
    const stderr = this.#child.stderr as { ref?(): void; unref?(): void } | null;
    if (needed) {
      this.#child.ref();
      this.#child.channel?.ref();
      stderr?.ref?.();
    } else {
      this.#child.unref();
      this.#child.channel?.unref();
      stderr?.unref?.();
    }
  }
}

/** The built file, even when running from the sources as tests do. */
function childPath(): string {
  const path = packageFile("dist/backends/gpu/drivers/compile-child.js");
  if (existsSync(path)) return path;
  throw gpuError({
    kind: "compile",
    place: "kernels",
    what: "compile-child.js is missing",
    remedy: "reinstall the package, or run `npm run build` in a checkout",
  });
}
