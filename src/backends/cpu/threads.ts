// How many threads compute when nobody says: one per physical core that this process may use. Two threads on one core
// share its arithmetic and its cache, and wait for each other at every barrier.

import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

export interface ThreadChoice {
  readonly threads: number;
  /** Why that many, for people. */
  readonly reason: string;
}

/** Where Linux tells of processors and of a container's share; parameters so that tests can bring their own. */
export interface ThreadSources {
  readonly processorFolder: string;
  readonly quotaFile: string;
  readonly allowed: number;
}

const SYSTEM: ThreadSources = {
  processorFolder: "/sys/devices/system/cpu",
  quotaFile: "/sys/fs/cgroup/cpu.max",
  allowed: availableParallelism(),
};

export function defaultThreads(sources: ThreadSources = SYSTEM): ThreadChoice {
  const cores = physicalCores(sources.processorFolder) ?? sources.allowed;
  const quota = containerQuota(sources.quotaFile) ?? cores;
  const threads = Math.max(1, Math.min(cores, quota, sources.allowed));
  if (threads === cores) return { threads, reason: "one per physical core" };
  if (threads === quota) return { threads, reason: `the container may use ${quota} of ${cores} cores` };
  return { threads, reason: `this process may use ${sources.allowed} of ${cores} cores` };
}

/** Processors that share a core name the same siblings. */
function physicalCores(folder: string): number | undefined {
  try {
    const processors = readdirSync(folder).filter((name) => /^cpu\d+$/.test(name));
    const cores = new Set(processors.map((name) => readFileSync(`${folder}/${name}/topology/thread_siblings_list`, "utf8").trim()));
    return cores.size > 0 ? cores.size : undefined;
  } catch {
    return undefined;
  }
}

/** "200000 100000" is two processors' time; "max 100000" is no limit. */
function containerQuota(file: string): number | undefined {
  try {
    const [quota, period] = readFileSync(file, "utf8").trim().split(/\s+/).map(Number);
    return quota > 0 && period > 0 ? Math.max(1, Math.ceil(quota / period)) : undefined;
  } catch {
    return undefined;
  }
}
