// The reference backend's entry in the registry: it runs everywhere.

import type { BackendEntry } from "../entry.js";
import { unavailableError } from "../unavailable.js";

/** The registry's entry for the reference backend, which runs everywhere. */
export const referenceEntry: BackendEntry = {
  takesThreads: true,
  unavailableReason: async () => undefined,
  open: async (options) => (await import("./backend.js")).createReferenceBackend(options),
  unavailableError: (found) => unavailableError("reference", found),
};
