// Which modules have passed their check on this device, which have failed, and the record of both on disk. A module that
// could not be checked is trusted for the life of the process and not recorded.

import type { KernelChoices } from "../lowering/kernel-choices.js";
import type { DeviceRecord } from "../kernels/device-record.js";

/** The modules of one device that need no check any more. */
export class ModuleTrust {
  readonly #record: DeviceRecord | undefined;
  readonly #trusted = new Set<string>();
  readonly #failed = new Set<string>();
  #writing: Promise<unknown> = Promise.resolve();

  /** Choices avoid what has failed before. */
  constructor(record: DeviceRecord | undefined, choices: KernelChoices) {
    this.#record = record;
    for (const [name, verdict] of Object.entries(record?.read().modules ?? {})) {
      if (verdict === "passed") this.#trusted.add(name);
      else {
        this.#failed.add(name);
        choices.avoidNamed(name);
      }
    }
  }

  isTrusted(name: string): boolean {
    return this.#trusted.has(name);
  }

  /** Modules that computed right results. */
  pass(names: readonly string[]): void {
    const fresh = names.filter((name) => !this.#trusted.has(name) && !this.#failed.has(name));
    for (const name of fresh) this.#trusted.add(name);
    this.#write(fresh, "passed");
  }

  /** Modules that computed wrong results. */
  fail(names: readonly string[]): void {
    for (const name of names) {
      this.#trusted.delete(name);
      this.#failed.add(name);
    }
    this.#write(names, "failed");
  }

  /** Modules that no check covers, or that there was no memory to check. */
  takeUnchecked(names: readonly string[]): void {
    for (const name of names) this.#trusted.add(name);
  }

  /** Resolves when everything is on disk. */
  async written(): Promise<void> {
    await this.#writing;
  }

  #write(names: readonly string[], verdict: "passed" | "failed"): void {
    const record = this.#record;
    if (record === undefined || names.length === 0) return;
    const modules = Object.fromEntries(names.map((name) => [name, verdict] as const));
    this.#writing = this.#writing.then(() => record.add({ modules }));
  }
}
