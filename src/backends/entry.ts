// What every backend tells the registry: whether it can run here, how to open it, and how it would run. A backend's
// entry is loaded before its code, so its file imports little.

import type { RocmForgeError } from "../errors.js";
import type { Backend, BackendOptions } from "./contract.js";
import type { UnavailableBackend } from "./unavailable.js";

/** How a backend would run on this machine, by names in camel case; `rocmforge doctor` prints it. */
export type BackendDiagnostics = Readonly<Record<string, string | number | boolean | readonly string[]>>;

export interface BackendEntry {
  /** Whether the option `threads` is meant for this backend; `auto` does not pass it to others. */
  readonly takesThreads: boolean;
  /** Everything that is checked before a backend is opened; undefined if it can run. */
  unavailableReason(): Promise<UnavailableBackend | undefined>;
  /**
   * Opens the backend, or returns why it cannot run. Its device may still be starting: `Backend.ready` waits for it.
   */
  open(options: BackendOptions): Promise<Backend | UnavailableBackend>;
  /** The error for a caller that asked for this backend and no other. */
  unavailableError(found: UnavailableBackend): RocmForgeError;
  /** Asked only if the backend can run. */
  diagnostics?(): Promise<BackendDiagnostics>;
  /** Begins to start the driver on a thread of its own; false if there is no driver to start. */
  startDriver?(): Promise<boolean>;
}
