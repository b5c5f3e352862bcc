// The CPU quota of this process: that of its control group and of the groups around it, whichever is the smallest. A container
// sees its own group as the root; a service of systemd is in a group of its own below it.

import { join } from "node:path";
import { systemText } from "./topology.js";

/** Where Linux keeps control groups; parameters so that tests can replace them. */
export interface CgroupSources {
  /** /sys/fs/cgroup on a Linux machine. */
  readonly cgroupFolder: string;
  /** Lists the groups of this process. */
  readonly cgroupFile: string;
}

/** More levels than any machine has: the list comes from the system, but a path may be of any length. */
const MAX_LEVELS = 64;

/** The quota in processors, rounded up: 3 for "250000 100000"; undefined if there is none. */
export function cpuQuota({ cgroupFolder, cgroupFile }: CgroupSources): number | undefined {
  const quotas = [...groupFolders(cgroupFolder, cgroupFile)].flatMap((folder) => quotaOf(folder) ?? []);
  return quotas.length === 0 ? undefined : Math.max(1, Math.ceil(Math.min(...quotas)));
}

/** The folders of this process's groups up to the root, of version 2 and of the controller `cpu` of version 1. */
function groupFolders(cgroupFolder: string, cgroupFile: string): Set<string> {
  const folders = new Set([cgroupFolder, join(cgroupFolder, "cpu")]);
  for (const line of (systemText(cgroupFile) ?? "").split("\n")) {
    const [, controllers = "", path = ""] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    const isSecondVersion = controllers === "";
    if (!path.startsWith("/") || (!isSecondVersion && !controllers.split(",").includes("cpu"))) continue;
    const root = isSecondVersion ? cgroupFolder : join(cgroupFolder, "cpu");
    const names = path.split("/").filter((name) => name !== "" && name !== "." && name !== "..");
    for (const [level] of names.slice(0, MAX_LEVELS).entries()) folders.add(join(root, ...names.slice(0, level + 1)));
  }
  return folders;
}

/** "200000 100000" or "max 100000" of version 2, two files of version 1, where -1 means none. */
function quotaOf(folder: string): number | undefined {
  const second = systemText(join(folder, "cpu.max"))?.trim().split(/\s+/);
  const first = ["cpu.cfs_quota_us", "cpu.cfs_period_us"].map((name) => systemText(join(folder, name))?.trim());
  const [quota, period] = (second ?? first).map(Number);
  return quota > 0 && period > 0 ? quota / period : undefined;
}
