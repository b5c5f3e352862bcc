// Why a backend cannot run on this machine, and the error for a caller that asked for it by name.

import { BackendError } from "../errors.js";

/** Why a backend cannot run here, in words. */
export interface UnavailableReason {
  readonly reason: string;
  /** What its user can do about it. */
  readonly remedy: string;
}

/** Why a backend cannot run here, as `auto` judges it. */
export interface UnavailableBackend extends UnavailableReason {
  /** True if nothing is wrong with the machine or the installation: `auto` tries the next backend without a warning. */
  readonly expected: boolean;
}

/** Tells the two results of opening a backend apart. */
export function isUnavailable<Opened extends object>(
  opened: Opened | UnavailableBackend,
): opened is UnavailableBackend {
  return "expected" in opened;
}

/** The error for a backend that was asked for by name and cannot run. */
export function unavailableError(backend: string, { reason, remedy }: UnavailableReason): BackendError {
  return new BackendError("BACKEND_UNAVAILABLE", `[backend] ${backend} cannot run here: ${reason}; ${remedy}`, {
    details: { backend, reason, remedy },
  });
}
