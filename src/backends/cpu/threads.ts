// How many threads compute by default, and where: one for each fast core of one socket that this process may use. Two
// threads on one core share its arithmetic and its cache; a slow core keeps fast ones waiting at the end of every
// operation; cores of another socket reach the weights through the link between the sockets.

import { availableParallelism } from "node:os";
import { type CgroupSources, cpuQuota } from "./cgroup-quota.js";
import { type Core, readCores, type TopologySources } from "./topology.js";

/** How many threads compute, and where. */
export interface ThreadChoice {
  readonly threads: number;
  /** Why this number was chosen, for diagnostics. */
  readonly reason: string;
  /** The processors that they are confined to; undefined if any will do. */
  readonly processors?: readonly number[];
}

/** The files in which Linux describes processors and a container's CPU quota; parameters so that tests can replace them. */
interface ThreadSources extends TopologySources, CgroupSources {
  readonly allowed: number;
}

const SYSTEM: ThreadSources = {
  deviceFolder: "/sys/devices",
  cgroupFolder: "/sys/fs/cgroup",
  cgroupFile: "/proc/self/cgroup",
  statusFile: "/proc/self/status",
  allowed: availableParallelism(),
};

/** This many fast cores use all of a desktop's memory bandwidth; with fewer, the slow cores are used as well. */
const ENOUGH_FAST_CORES = 4;

/** Cores for the threads, and why not all. */
interface CoreChoice {
  readonly cores: readonly Core[];
  readonly reason: string;
}

/** The default number and place of threads with its reason, within the limits of a container. */
export function defaultThreads(sources: ThreadSources = SYSTEM): ThreadChoice {
  const all = readCores(sources);
  const { cores, reason } = chosenCores(all);
  const most = all.length === 0 ? sources.allowed : cores.length;
  const quota = cpuQuota(sources) ?? most;
  const threads = Math.max(1, Math.min(most, quota, sources.allowed));
  const place = cores.length === all.length ? {} : { processors: cores.flatMap(({ processors }) => processors) };
  if (threads === most) return { threads, reason, ...place };
  if (threads === quota) return { threads, reason: `the CPU quota allows ${quota} of ${most} cores`, ...place };
  return { threads, reason: `this process may use ${sources.allowed} of ${most} cores`, ...place };
}

/** The number of threads that was asked for, where they fit; all processors if there are more than chosen cores. */
export function placedThreads(threads: number, sources: ThreadSources = SYSTEM): ThreadChoice {
  const reason = "as asked for";
  const { cores } = chosenCores(readCores(sources));
  const { processors } = defaultThreads(sources);
  return processors === undefined || threads > cores.length ? { threads, reason } : { threads, reason, processors };
}

function chosenCores(all: readonly Core[]): CoreChoice {
  const fast = all.filter(({ isFast }) => isFast);
  const isHybrid = fast.length < all.length && fast.length >= ENOUGH_FAST_CORES;
  const kind = isHybrid ? fast : all;
  const sockets = [...new Set(kind.map(({ socket }) => socket))];
  const bySocket = sockets.map((socket) => kind.filter((core) => core.socket === socket));
  const cores = bySocket.reduce((most, some) => (some.length > most.length ? some : most), []);
  const which = isHybrid ? "fast core" : "physical core";
  if (sockets.length < 2) return { cores, reason: `one per ${which}` };
  return { cores, reason: `one per ${which} of one of ${sockets.length} sockets` };
}
