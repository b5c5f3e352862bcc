// The CPU backend's entry in the registry.

import type { BackendEntry } from "../entry.js";
import { unavailableError } from "../unavailable.js";

/** The registry's entry for the CPU backend. */
export const cpuEntry: BackendEntry = {
  takesThreads: true,
  async unavailableReason() {
    const { loadAddon } = await import("./addon.js");
    const loaded = loadAddon();
    return "reason" in loaded ? { ...loaded, expected: false } : undefined;
  },
  async open(options) {
    return (await this.unavailableReason()) ?? (await import("./backend.js")).createCpuBackend(options);
  },
  unavailableError: (found) => unavailableError("cpu", found),
  diagnostics: async () => (await import("./diagnostics.js")).cpuDiagnostics(),
};
