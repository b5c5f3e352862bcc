// Why a backend cannot run on this machine, and the error for a caller that requested it by name.

import { BackendError } from "../errors.js";

/** Why a backend cannot run on this machine, and what to do. */
export interface UnavailableReason {
  readonly reason: string;
  /** What the user can do about it. */
  readonly remedy: string;
}

/** Why a backend cannot run on this machine, and whether `auto` should warn about it. */
export interface UnavailableBackend extends UnavailableReason {
  /** True if nothing is broken: `auto` then tries the next backend without a warning. */
  readonly expected: boolean;
}

/** Distinguishes the two results of opening a backend. */
export function isUnavailable<Opened extends object>(
  opened: Opened | UnavailableBackend,
): opened is UnavailableBackend {
  return "expected" in opened;
}

/** The error for a backend that was requested by name and cannot run. */
export function unavailableError(backend: string, { reason, remedy }: UnavailableReason): BackendError {
  return new BackendError("BACKEND_UNAVAILABLE", `[backend] ${backend} cannot run here: ${reason}; ${remedy}`, {
    details: { backend, reason, remedy },
  });
}
