// What Linux says of the processors that this process may run on: which of them share a core, on which socket they are, and
// which are the slower cores of a hybrid machine.

import { readdirSync, readFileSync } from "node:fs";

/** A core whose processors (hardware threads) this process may use. */
export interface Core {
  readonly processors: readonly number[];
  readonly socket: number;
  /** Whether it is one of the fast cores; all are where there are no others. */
  readonly isFast: boolean;
}

/** Where the system describes its processors; parameters so that tests can replace them. */
export interface TopologySources {
  /** /sys/devices on a Linux machine. */
  readonly deviceFolder: string;
  /** Lists the processors that this process may run on. */
  readonly statusFile: string;
}

/** Cores of Arm's small kind have less than half of a large one's capacity. */
const FAST_CAPACITY = 0.6;

/** The cores that this process may use, in order; empty if the system does not say. */
export function readCores({ deviceFolder, statusFile }: TopologySources): readonly Core[] {
  const mayUse = allowedProcessors(statusFile);
  const isFast = fastProcessors(deviceFolder);
  const cores = new Map<string, { processors: number[]; socket: number; isFast: boolean }>();
  for (const processor of processorsOf(deviceFolder).filter(mayUse)) {
    const topology = `${processorFolder(deviceFolder)}/cpu${processor}/topology`;
    const siblings = systemText(`${topology}/thread_siblings_list`)?.trim();
    // A processor that is switched off has no topology.
    if (siblings === undefined) continue;
    const socket = Number(systemText(`${topology}/physical_package_id`) ?? 0);
    const core = cores.get(siblings) ?? { processors: [], socket: socket >= 0 ? socket : 0, isFast: isFast(processor) };
    core.processors.push(processor);
    cores.set(siblings, core);
  }
  return [...cores.values()];
}

function processorFolder(deviceFolder: string): string {
  return `${deviceFolder}/system/cpu`;
}

function processorsOf(deviceFolder: string): number[] {
  try {
    const names = readdirSync(processorFolder(deviceFolder));
    const numbers = names.flatMap((name) => /^cpu(\d+)$/.exec(name)?.[1] ?? []).map(Number);
    return numbers.sort((left, right) => left - right);
  } catch {
    return [];
  }
}

/** Intel's hybrid machines have a list of each kind; Arm's give each processor's capacity. */
function fastProcessors(deviceFolder: string): (processor: number) => boolean {
  const fast = systemText(`${deviceFolder}/cpu_core/cpus`);
  if (fast !== undefined && systemText(`${deviceFolder}/cpu_atom/cpus`) !== undefined) return inList(fast);
  const capacityOf = (processor: number): number =>
    Number(systemText(`${processorFolder(deviceFolder)}/cpu${processor}/cpu_capacity`) ?? Number.NaN);
  const most = Math.max(...processorsOf(deviceFolder).map((processor) => capacityOf(processor) || 0));
  return (processor) => !(capacityOf(processor) < most * FAST_CAPACITY);
}

function allowedProcessors(statusFile: string): (processor: number) => boolean {
  const list = /^Cpus_allowed_list:\s*(\S+)/m.exec(systemText(statusFile) ?? "")?.[1];
  return list === undefined ? () => true : inList(list);
}

/** Whether a number is in a list such as "0-3,8". */
function inList(list: string): (processor: number) => boolean {
  const ranges = list
    .trim()
    .split(",")
    .map((range) => range.split("-").map(Number));
  return (processor) => ranges.some(([first, last = first]) => processor >= first && processor <= last);
}

/** The text of a file; undefined if it cannot be read. */
export function systemText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
