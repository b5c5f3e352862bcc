import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { RECORDED_TOPOLOGIES, type RecordedTopology, writeTopology } from "./testing/topologies.js";
import { defaultThreads, placedThreads } from "./threads.js";

const root = mkdtempSync(join(tmpdir(), "rocmforge-threads-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const absent = join(root, "absent");

function file(name: string, text: string): string {
  writeFileSync(join(root, name), text);
  return join(root, name);
}

let folders = 0;

/** Sources of a machine without limits, and what differs. */
function machine(topology: RecordedTopology, differences: Partial<Parameters<typeof defaultThreads>[0]> = {}) {
  const deviceFolder = join(root, `machine-${folders++}`);
  writeTopology(deviceFolder, topology);
  return {
    deviceFolder,
    cgroupFolder: absent,
    cgroupFile: absent,
    statusFile: absent,
    allowed: topology.siblings.length,
    ...differences,
  };
}

/** The status file of a process that may use these processors. */
const confined = (list: string): string =>
  file(`status-${folders++}`, `Name:\tnode\nCpus_allowed_list:\t${list}\nMems_allowed_list:\t0\n`);

/** A folder of control groups with these files. */
function groups(files: Readonly<Record<string, string>>): string {
  const folder = join(root, `groups-${folders++}`);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

const FOUR: RecordedTopology = { siblings: ["0", "1", "2", "3"] };
const SMT: RecordedTopology = { siblings: ["0,2", "1,3", "0,2", "1,3"] };

describe("defaultThreads", () => {
  it("counts cores, not hardware threads", () => {
    expect(defaultThreads(machine(SMT))).toEqual({ threads: 2, reason: "one per physical core" });
  });

  it("stays within a container's share", () => {
    const eight = machine({ siblings: ["0", "1", "2", "3", "4", "5", "6", "7"] });
    const choose = (text: string): number =>
      defaultThreads({ ...eight, cgroupFolder: groups({ "cpu.max": text }) }).threads;
    expect(choose("250000 100000\n")).toBe(3);
    expect(choose("10000 100000\n")).toBe(1);
    expect(choose("max 100000\n")).toBe(8);
    expect(choose("nonsense")).toBe(8);
  });

  it("stays within the quota of its own control group and of those around it", () => {
    const eight = machine({ siblings: ["0", "1", "2", "3", "4", "5", "6", "7"] });
    const service = {
      cgroupFolder: groups({
        "cpu.max": "max 100000",
        "system.slice/cpu.max": "600000 100000",
        "system.slice/model.service/cpu.max": "400000 100000",
        "other/cpu.max": "100000 100000",
      }),
      cgroupFile: file("cgroup-2", "0::/system.slice/model.service\n"),
    };
    expect(defaultThreads({ ...eight, ...service })).toEqual({
      threads: 4,
      reason: "the CPU quota allows 4 of 8 cores",
    });
    const firstVersion = {
      cgroupFolder: groups({
        "cpu/docker/one/cpu.cfs_quota_us": "150000",
        "cpu/docker/one/cpu.cfs_period_us": "50000",
        "cpu/docker/cpu.cfs_quota_us": "-1",
        "cpu/docker/cpu.cfs_period_us": "100000",
      }),
      cgroupFile: file("cgroup-1", "11:memory:/docker/one\n4:cpu,cpuacct:/docker/one\nnonsense\n"),
    };
    expect(defaultThreads({ ...eight, ...firstVersion }).threads).toBe(3);
  });

  it("looks for no control group outside of their folder", () => {
    const four = machine(FOUR);
    const outside = groups({ "inner/none": "", "cpu.max": "100000 100000" });
    const sources = { cgroupFolder: join(outside, "inner"), cgroupFile: file("cgroup-out", "0::/../..\n0::/..\n") };
    expect(defaultThreads({ ...four, ...sources }).threads).toBe(4);
  });

  it("stays within the processors this process may use", () => {
    expect(defaultThreads(machine(FOUR, { allowed: 2 }))).toEqual({
      threads: 2,
      reason: "this process may use 2 of 4 cores",
    });
  });

  it("counts the cores of the processors it may run on, and none that is switched off", () => {
    const sources = machine(SMT, { allowed: 2 });
    mkdirSync(join(sources.deviceFolder, "system/cpu/cpu9"), { recursive: true });
    const choose = (list: string): number => defaultThreads({ ...sources, statusFile: confined(list) }).threads;
    expect(choose("0,2,9")).toBe(1);
    expect(choose("0-1")).toBe(2);
  });

  it("takes what it is allowed where nothing is known", () => {
    const nothing = { deviceFolder: absent, cgroupFolder: absent, cgroupFile: absent, statusFile: absent, allowed: 6 };
    expect(defaultThreads(nothing)).toEqual({ threads: 6, reason: "one per physical core" });
  });
});

const range = (first: number, last: number): number[] =>
  Array.from({ length: last - first + 1 }, (_, at) => first + at);

describe("threads of recorded machines", () => {
  const choose = (name: keyof typeof RECORDED_TOPOLOGIES, differences = {}) =>
    defaultThreads(machine(RECORDED_TOPOLOGIES[name], differences));

  it("may run anywhere where all cores are alike", () => {
    expect(choose("Ryzen 9 7950X")).toEqual({ threads: 16, reason: "one per physical core" });
  });

  it("stay on the fast cores of a hybrid machine, unless these are few", () => {
    expect(choose("Core i9-13900K")).toEqual({ threads: 8, reason: "one per fast core", processors: range(0, 15) });
    expect(choose("Core i5-1335U")).toEqual({ threads: 10, reason: "one per physical core" });
    expect(choose("RK3588")).toEqual({ threads: 4, reason: "one per fast core", processors: range(4, 7) });
    expect(choose("Arm in four clusters")).toEqual({
      threads: 6,
      reason: "one per fast core",
      processors: range(2, 7),
    });
  });

  it("use slow cores if this process may use no others, and fast ones within a quota", () => {
    const onSlow = { statusFile: confined("16-23"), allowed: 8 };
    expect(choose("Core i9-13900K", onSlow)).toEqual({ threads: 8, reason: "one per physical core" });
    const onBoth = { statusFile: confined("0-5,16-31"), allowed: 22 };
    expect(choose("Core i9-13900K", onBoth)).toEqual({ threads: 19, reason: "one per physical core" });
    const oneThreadEach = { statusFile: confined("0,2,4,6,8,16-31"), allowed: 21 };
    expect(choose("Core i9-13900K", oneThreadEach)).toEqual({
      threads: 5,
      reason: "one per fast core",
      processors: [0, 2, 4, 6, 8],
    });
    const quota = { cgroupFolder: groups({ "cpu.max": "300000 100000" }) };
    expect(choose("Core i9-13900K", quota)).toEqual({
      threads: 3,
      reason: "the CPU quota allows 3 of 8 cores",
      processors: range(0, 15),
    });
  });

  it("use the whole socket if its memory is divided into several nodes", () => {
    const { processors, ...choice } = choose("two EPYC 9354 as eight nodes");
    expect(choice).toEqual({ threads: 32, reason: "one per physical core of one of 2 sockets" });
    expect(processors).toEqual(range(0, 31));
  });

  it("stay on one of two sockets", () => {
    const { processors, ...choice } = choose("two EPYC 7763");
    expect(choice).toEqual({ threads: 64, reason: "one per physical core of one of 2 sockets" });
    expect(processors?.toSorted((left, right) => left - right)).toEqual([...range(0, 63), ...range(128, 191)]);
    expect(choose("two Xeon Gold 6248").processors?.every((processor) => processor % 2 === 0)).toBe(true);
    expect(choose("two Xeon Gold 6248").threads).toBe(20);
  });

  it("take the socket on which this process may use more cores", () => {
    const onSecond = { statusFile: confined("60-71,188-199"), allowed: 24 };
    expect(choose("two EPYC 7763", onSecond)).toEqual({
      threads: 8,
      reason: "one per physical core of one of 2 sockets",
      processors: expect.arrayContaining([64, 71, 192, 199]),
    });
    const onlySecond = { statusFile: confined("64-71"), allowed: 8 };
    expect(choose("two EPYC 7763", onlySecond)).toEqual({ threads: 8, reason: "one per physical core" });
  });

  it("go where they were asked to, if they fit", () => {
    const sources = machine(RECORDED_TOPOLOGIES["Core i9-13900K"]);
    expect(placedThreads(6, sources)).toMatchObject({ threads: 6, processors: range(0, 15) });
    expect(placedThreads(20, sources)).toEqual({ threads: 20, reason: "as asked for" });
  });
});
