// Turns what the downloads of a model's files observe into one stream of progress reports: sums over files, the rate
// and the time left. A callback that throws does not harm the download.

import type { DownloadObserver } from "./download.js";
import type { PullProgress } from "./pull-types.js";
import type { RemoteModelFile, RemoteModel } from "./remote-model.js";
import { presentBytesOf, totalBytes } from "./remote-model.js";
import { TransferRate } from "./transfer-rate.js";

const REPORT_MS = 100;

/** Observes one file. */
interface FileObserver extends DownloadObserver {
  /** Called when the file is complete. */
  onDone(): void;
}

/** Reports the progress of one model. */
export class PullReport {
  readonly #model: string;
  readonly #listener: ((progress: PullProgress) => void) | undefined;
  readonly #doneBytes = new Map<RemoteModelFile, number>();
  readonly #rate = new TransferRate();
  #phase: PullProgress["phase"] = "resolving";
  #totalBytes = 0;
  #totalFiles = 0;
  #doneFiles = 0;
  #reportedMs = Number.NEGATIVE_INFINITY;

  constructor(model: string, listener: ((progress: PullProgress) => void) | undefined) {
    this.#model = model;
    this.#listener = listener;
  }

  /** Reports a new phase at once. */
  phase(phase: PullProgress["phase"]): void {
    const isNew = phase !== this.#phase;
    this.#phase = phase;
    this.#report(isNew);
  }

  /** The files are known. */
  start(model: RemoteModel): void {
    this.#totalBytes = totalBytes(model);
    this.#totalFiles = model.files.length;
  }

  /** Another process downloads a file of the model. */
  waiting(file: RemoteModelFile): void {
    // The other process writes the partial file.
    void presentBytesOf(file).then((size) => this.#doneBytes.set(file, size));
    this.phase("waiting");
  }

  /** An observer for the download of one file. */
  observe(file: RemoteModelFile): FileObserver {
    return {
      onBytes: (doneBytes, arrivedBytes) => {
        this.#doneBytes.set(file, doneBytes);
        this.#rate.add(arrivedBytes);
        this.phase("downloading");
      },
      onVerify: () => this.phase("verifying"),
      onDone: () => {
        this.#doneBytes.set(file, file.file.sizeBytes);
        this.#doneFiles++;
        this.#report(true);
      },
    };
  }

  #report(isDue: boolean): void {
    const now = performance.now();
    if (this.#listener === undefined || (!isDue && now - this.#reportedMs < REPORT_MS)) return;
    this.#reportedMs = now;
    const doneBytes = [...this.#doneBytes.values()].reduce((total, bytes) => total + bytes, 0);
    const bytesPerSecond = this.#rate.bytesPerSecond();
    const remainingBytes = this.#totalBytes - doneBytes;
    try {
      this.#listener({
        phase: this.#phase,
        model: this.#model,
        doneBytes,
        totalBytes: this.#totalBytes,
        doneFiles: this.#doneFiles,
        totalFiles: this.#totalFiles,
        bytesPerSecond,
        remainingMs: bytesPerSecond === 0 ? undefined : (1000 * remainingBytes) / bytesPerSecond,
      });
    } catch (error) {
      process.emitWarning(error instanceof Error ? error : String(error));
    }
  }
}
