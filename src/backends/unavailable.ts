// A backend that was asked for by name and cannot run: the one place where that is put into words.

import { BackendError } from "../errors.js";

export interface MissingBackend {
  readonly reason: string;
  /** What its user can do about it. */
  readonly remedy: string;
}

export function unavailableBackend(backend: string, { reason, remedy }: MissingBackend): BackendError {
  return new BackendError("BACKEND_UNAVAILABLE", `[backend] ${backend} cannot run here: ${reason}; ${remedy}`, {
    details: { backend, reason, remedy },
  });
}
