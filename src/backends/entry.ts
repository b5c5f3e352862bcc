// A backend's entry in the registry: whether it can run here, how to open it, and its diagnostics. The entry is loaded
// before the backend's code, so its file imports little.

import type { RocmForgeError } from "../errors.js";
import type { Backend, BackendOptions } from "./contract.js";
import type { UnavailableBackend } from "./unavailable.js";

/** How a backend would run on this machine, by camelCase names; `rocmforge doctor` prints it. */
export type BackendDiagnostics = Readonly<Record<string, string | number | boolean | readonly string[]>>;

/** A backend as the registry sees it before its code is loaded. */
export interface BackendEntry {
  /** Whether the option `threads` applies to this backend; `auto` does not pass it to others. */
  readonly takesThreads: boolean;
  /** Runs all checks that are possible without opening the backend; undefined if it can run. */
  unavailableReason(): Promise<UnavailableBackend | undefined>;
  /**
   * Opens the backend, or returns why it cannot run. Its device may still be starting: `Backend.ready` waits for it.
   * `openOracle` opens a backend on the CPU, whose results a GPU's kernels are compared with.
   */
  open(options: BackendOptions, openOracle?: () => Promise<Backend>): Promise<Backend | UnavailableBackend>;
  /** The error for a caller that explicitly requested this backend. */
  unavailableError(found: UnavailableBackend): RocmForgeError;
  /** Called only if the backend can run. */
  diagnostics?(): Promise<BackendDiagnostics>;
  /** Starts the driver in the background; false if there is no driver to start. */
  startDriver?(): Promise<boolean>;
}
