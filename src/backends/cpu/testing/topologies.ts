// The topology of some machines, as Linux shows it in /sys, in short: which processors share a core, which socket they
// are on, and which are slow.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A machine's processors. */
export interface RecordedTopology {
  /** For each processor, its `thread_siblings_list`. */
  readonly siblings: readonly string[];
  /** For each processor, its `physical_package_id`; 0 by default. */
  readonly sockets?: readonly number[];
  /** `cpu_core/cpus` and `cpu_atom/cpus`, as Intel's hybrid machines have them. */
  readonly kinds?: { readonly fast: string; readonly slow: string };
  /** For each processor, its `cpu_capacity`, as Arm's machines have it. */
  readonly capacities?: readonly number[];
}

const times = <Value>(count: number, value: (index: number) => Value): Value[] =>
  Array.from({ length: count }, (_, index) => value(index));

/** Machines that the choice of threads is tested with. */
export const RECORDED_TOPOLOGIES = {
  /** One socket with two threads a core, numbered in two rounds. */
  "Ryzen 9 7950X": { siblings: times(32, (index) => `${index % 16},${(index % 16) + 16}`) },
  /** Eight fast cores with two threads each, sixteen slow ones. */
  "Core i9-13900K": {
    siblings: times(32, (index) => (index < 16 ? `${index - (index % 2)}-${index - (index % 2) + 1}` : `${index}`)),
    kinds: { fast: "0-15", slow: "16-31" },
  },
  /** Two fast cores with two threads each, eight slow ones. */
  "Core i5-1335U": {
    siblings: times(12, (index) => (index < 4 ? `${index - (index % 2)}-${index - (index % 2) + 1}` : `${index}`)),
    kinds: { fast: "0-3", slow: "4-11" },
  },
  /** Two sockets of 64 cores with two threads each. */
  "two EPYC 7763": {
    siblings: times(256, (index) => `${index % 128},${(index % 128) + 128}`),
    sockets: times(256, (index) => (index % 128 < 64 ? 0 : 1)),
  },
  /** Two sockets whose processors are numbered in turns. */
  "two Xeon Gold 6248": {
    siblings: times(80, (index) => `${index % 40},${(index % 40) + 40}`),
    sockets: times(80, (index) => index % 2),
  },
  /** Two sockets of 32 cores with one thread each, whose memory is set up as four nodes a socket (NPS4). */
  "two EPYC 9354 as eight nodes": {
    siblings: times(64, (index) => `${index}`),
    sockets: times(64, (index) => (index < 32 ? 0 : 1)),
  },
  /** Two small cores, five larger ones in two clusters, and one that is the fastest, as phones of 2024 have them. */
  "Arm in four clusters": {
    siblings: times(8, (index) => `${index}`),
    capacities: [379, 379, 923, 923, 923, 867, 867, 1024],
  },
  /** Four small cores and four large ones. */
  RK3588: {
    siblings: times(8, (index) => `${index}`),
    capacities: times(8, (index) => (index < 4 ? 414 : 1024)),
  },
} as const satisfies Record<string, RecordedTopology>;

/** Writes a topology as files below a folder that stands for /sys/devices. */
export function writeTopology(folder: string, { siblings, sockets, kinds, capacities }: RecordedTopology): void {
  const write = (path: string, text: string): void => {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), `${text}\n`);
  };
  for (const [index, list] of siblings.entries()) {
    const processor = `system/cpu/cpu${index}`;
    write(`${processor}/topology/thread_siblings_list`, list);
    write(`${processor}/topology/physical_package_id`, String(sockets?.[index] ?? 0));
    if (capacities !== undefined) write(`${processor}/cpu_capacity`, String(capacities[index]));
  }
  write("system/cpu/cpufreq/none", "");
  if (kinds === undefined) return;
  write("cpu_core/cpus", kinds.fast);
  write("cpu_atom/cpus", kinds.slow);
}
