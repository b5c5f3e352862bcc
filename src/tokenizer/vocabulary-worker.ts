// Decodes a vocabulary in a worker thread while the main thread loads code and builds the plan: with 128,000 tokens that
// takes a tenth of a second, which would delay the first token. The thread answers once and ends; its tables are
// transferred, not copied. Invariants: it is waited for within a limit only, keeps no process alive beyond that, and
// without its answer the caller decodes the vocabulary itself.

import { statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import { type FileIdentity, isSameFile } from "../gguf/byte-source.js";
import { builtFile } from "../worker/built-file.js";
import type { PrebuiltVocabulary } from "./prebuilt-vocabulary.js";
import type { DecodedVocabulary, VocabularyAnswer, VocabularyQuestion } from "./vocabulary-message.js";

/** With fewer, the thread would take its time from the driver and the main thread. */
const LEAST_CORES = 4;
/** Models with a vocabulary that is worth a thread are larger. */
const LEAST_FILE_BYTES = 64 * 2 ** 20;
/** From the start of the thread: a few times what a large vocabulary takes. */
const LIMIT_MS = 800;
/** A thread that has run for longer is done sooner than the main thread would be from the beginning. */
const YOUNG_MS = 50;
const HEAP_MB = 256;
const YOUNG_HEAP_MB = 16;
const STACK_MB = 4;

/** A thread that decodes the vocabulary of one file. */
export class VocabularyWorker implements Disposable {
  /** Resolves when there is an answer or none is going to come. */
  readonly settled: Promise<void>;
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #timer: NodeJS.Timeout;
  #settle: () => void = () => {};
  readonly #startMs = performance.now();
  #isPending = true;
  #decoded: DecodedVocabulary | undefined;

  /** Starts a thread for the file if that is likely to be worth it; never throws. */
  static startFor(path: string): VocabularyWorker | undefined {
    try {
      const isWorthIt = availableParallelism() >= LEAST_CORES && statSync(path).size >= LEAST_FILE_BYTES;
      return isWorthIt ? new VocabularyWorker(path) : undefined;
    } catch {
      // What is wrong with the file is said when it is opened.
      return undefined;
    }
  }

  /** `limitMs` and `file`, the built module of the thread, are parameters for tests. */
  constructor(path: string, limitMs = LIMIT_MS, file = builtFile(import.meta.url, "./vocabulary-thread.js")) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    this.settled = new Promise((resolve) => (this.#settle = resolve));
    this.#worker = new Worker(file, {
      workerData: { path, port: port2 } satisfies VocabularyQuestion,
      transferList: [port2],
      env: {},
      execArgv: [],
      stdout: true,
      stderr: true,
      resourceLimits: {
        maxOldGenerationSizeMb: HEAP_MB,
        maxYoungGenerationSizeMb: YOUNG_HEAP_MB,
        stackSizeMb: STACK_MB,
      },
    });
    const giveUp = (): void => this.giveUp();
    this.#worker.on("error", giveUp);
    this.#worker.on("exit", giveUp);
    port1.on("message", (answer: VocabularyAnswer) => this.#hear(answer));
    // While someone waits, the timer keeps the process alive, and nothing else does.
    this.#worker.unref();
    port1.unref();
    this.#timer = setTimeout(giveUp, limitMs);
  }

  /** Whether an answer may still come. */
  get isPending(): boolean {
    this.#look();
    return this.#isPending;
  }

  /** The tables of this file, once: their owner changes them. Undefined if there are none, or of another file only. */
  take(file: FileIdentity | undefined): PrebuiltVocabulary | undefined {
    this.#look();
    const decoded = this.#decoded;
    this.#decoded = undefined;
    // The path may have been given to another file between the two openings.
    return decoded !== undefined && file !== undefined && isSameFile(decoded.file, file) ? decoded : undefined;
  }

  /** Ends the thread if it has not answered yet. */
  giveUp(): void {
    if (!this.isPending) return;
    this.#end();
    void this.#worker.terminate();
  }

  /** Ends the thread if it has only just been started. */
  giveUpIfYoung(): void {
    if (performance.now() - this.#startMs < YOUNG_MS) this.giveUp();
  }

  [Symbol.dispose](): void {
    this.giveUp();
    this.#decoded = undefined;
  }

  /** Takes an answer that has arrived, even if the event loop has not come to it. */
  #look(): void {
    try {
      const received = this.#isPending ? receiveMessageOnPort(this.#port) : undefined;
      if (received !== undefined) this.#hear(received.message as VocabularyAnswer);
    } catch {
      // An answer that cannot be read, for want of memory, is none.
      this.#end();
    }
  }

  /** The thread ends by itself after its answer. */
  #hear(answer: VocabularyAnswer): void {
    if (!this.#isPending) return;
    this.#decoded = answer;
    this.#end();
  }

  #end(): void {
    this.#isPending = false;
    clearTimeout(this.#timer);
    this.#port.close();
    this.#settle();
  }
}
