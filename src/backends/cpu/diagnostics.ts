// How the CPU backend would run on this machine, for `doctor`.

import type { BackendDiagnostics } from "../entry.js";
import { loadAddon } from "./addon.js";
import { chooseIsa, ISA_VARIABLE } from "./isa.js";
import { defaultThreads } from "./threads.js";

/** Addon, instruction sets and threads of the CPU backend on this machine. */
export function cpuDiagnostics(): BackendDiagnostics {
  const loaded = loadAddon();
  if ("reason" in loaded) return {};
  const { addon, path } = loaded;
  const forced = process.env[ISA_VARIABLE];
  const { threads, reason, processors } = defaultThreads();
  return {
    addon: path,
    bindingsVersion: addon.bindingsVersion,
    instructionSets: addon.isas,
    isa: chooseIsa(addon.isas, forced),
    isaForced: forced !== undefined && forced !== "",
    threads,
    threadsBecause: reason,
    ...(processors === undefined ? {} : { processors: processors.join(" ") }),
  };
}
