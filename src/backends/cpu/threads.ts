// The default number of threads: one per physical core that this process may use. Two threads on one core share its
// arithmetic and its cache, and wait for each other at every barrier.

import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

interface ThreadChoice {
  readonly threads: number;
  /** Why this number was chosen, for diagnostics. */
  readonly reason: string;
}

/** The files in which Linux describes processors and a container's CPU quota; parameters so that tests can replace them. */
interface ThreadSources {
  readonly processorFolder: string;
  readonly quotaFile: string;
  /** Lists the processors that this process may run on. */
  readonly statusFile: string;
  readonly allowed: number;
}

const SYSTEM: ThreadSources = {
  processorFolder: "/sys/devices/system/cpu",
  quotaFile: "/sys/fs/cgroup/cpu.max",
  statusFile: "/proc/self/status",
  allowed: availableParallelism(),
};

/** The default number of threads with its reason, within the limits of a container. */
export function defaultThreads(sources: ThreadSources = SYSTEM): ThreadChoice {
  const cores = physicalCores(sources) ?? sources.allowed;
  const quota = containerQuota(sources.quotaFile) ?? cores;
  const threads = Math.max(1, Math.min(cores, quota, sources.allowed));
  if (threads === cores) return { threads, reason: "one per physical core" };
  if (threads === quota) return { threads, reason: `the container may use ${quota} of ${cores} cores` };
  return { threads, reason: `this process may use ${sources.allowed} of ${cores} cores` };
}

/** Physical cores among the processors that this process may run on: processors of one core list the same siblings. */
function physicalCores({ processorFolder, statusFile }: ThreadSources): number | undefined {
  const mayUse = allowedProcessors(statusFile);
  const cores = new Set<string>();
  try {
    for (const name of readdirSync(processorFolder)) {
      const processor = /^cpu(\d+)$/.exec(name)?.[1];
      if (processor === undefined || !mayUse(Number(processor))) continue;
      const siblings = readText(`${processorFolder}/${name}/topology/thread_siblings_list`);
      // A processor that is switched off has no topology.
      if (siblings !== undefined) cores.add(siblings.trim());
    }
  } catch {
    return undefined;
  }
  return cores.size > 0 ? cores.size : undefined;
}

/** Returns whether this process may run on a processor, by the list of the status file, such as "0-3,8". */
function allowedProcessors(statusFile: string): (processor: number) => boolean {
  const list = /^Cpus_allowed_list:\s*(\S+)/m.exec(readText(statusFile) ?? "")?.[1];
  if (list === undefined) return () => true;
  const ranges = list.split(",").map((range) => range.split("-").map(Number));
  return (processor) => ranges.some(([first, last = first]) => processor >= first && processor <= last);
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

/** The container's CPU quota in processors: 2 for "200000 100000", undefined for "max 100000". */
function containerQuota(file: string): number | undefined {
  const [quota, period] = (readText(file) ?? "").trim().split(/\s+/).map(Number);
  return quota > 0 && period > 0 ? Math.max(1, Math.ceil(quota / period)) : undefined;
}
