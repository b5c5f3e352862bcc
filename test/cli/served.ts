// `rocmforge serve` or `run` in a separate process, from its greeting to its end.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { COMMAND_LINE } from "./command-line.js";

/**
 * The time limit of the whole process, which may serve a whole file of tests on a busy machine; each test has its own
 * limit.
 */
const HANG_MS = 180_000;
const GREETING_END = "Ctrl-C again at once.\n";

export class Served implements AsyncDisposable {
  stdout = "";
  stderr = "";
  /** Null if a signal ended it. */
  readonly status: Promise<number | null>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #watchers = new Set<() => void>();

  private constructor(args: readonly string[], environment: Readonly<Record<string, string>>) {
    this.#child = spawn(process.execPath, [COMMAND_LINE, ...args], {
      timeout: HANG_MS,
      killSignal: "SIGKILL",
      env: { ...process.env, ROCMFORGE_API_KEYS: undefined, ...environment },
    });
    const notice = (): void => this.#watchers.forEach((watcher) => watcher());
    this.#child.stdout.setEncoding("utf8").on("data", (text: string) => ((this.stdout += text), notice()));
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => ((this.stderr += text), notice()));
    this.status = new Promise((resolve, reject) => {
      this.#child.on("error", reject);
      this.#child.on("close", (status) => resolve(status));
    });
    void this.status.then(notice);
  }

  /** Resolves when it listens, before its first model is loaded. */
  static async begin(args: readonly string[]): Promise<Served> {
    const served = new Served(["serve", "--port", "0", ...args], {});
    await served.until(() => served.stderr.includes("Server listening"));
    return served;
  }

  /** Resolves when it listens and its first model is loaded. */
  static async start(
    args: readonly string[] = [],
    environment: Readonly<Record<string, string>> = {},
  ): Promise<Served> {
    const served = new Served(["serve", "--port", "0", ...args], environment);
    await served.until(() => served.stdout.endsWith(GREETING_END));
    return served;
  }

  /** Starts `rocmforge run`; resolves when it listens, before its model is loaded. */
  static async run(args: readonly string[], environment: Readonly<Record<string, string>> = {}): Promise<Served> {
    const served = new Served(["run", ...args], environment);
    await served.until(() => served.url !== "");
    return served;
  }

  get url(): string {
    return (
      /^(?:rocmforge is listening on| {2}chat in a browser:) (?<url>\S+?)\/?$/m.exec(this.stdout)?.groups?.["url"] ?? ""
    );
  }

  /** Waits until the condition holds for its output. */
  async until(isSo: () => boolean): Promise<void> {
    const early = async (): Promise<void> => {
      const status = await this.status;
      if (!isSo()) throw new Error(`rocmforge ended with ${status} before that:\n${this.stdout}\n${this.stderr}`);
    };
    const seen = new Promise<void>((resolve) => {
      const watcher = (): void => (isSo() ? resolve() : undefined);
      this.#watchers.add(watcher);
      watcher();
    });
    await Promise.race([seen, early()]);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async post(path: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    return await fetch(`${this.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.status;
  }
}
