// Names the process that owns a file, in the file's name, so that other processes can tell whether the owner still
// runs. Process ids are reused and mean nothing on other machines and in other containers, so a name contains the
// machine, the process id and the time at which the process started.

import { createHash } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

/** A process of this machine; `start` is its start time, "0" if the system does not tell it. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly start: string;
}

/** The form of an owner's name: `1a2b3c4d-4711-88213`. */
export const OWNER_NAME = /[0-9a-f]{8}-\d{1,10}-\d{1,20}/;
const PARTS = /^(?<machine>[0-9a-f]{8})-(?<pid>\d{1,10})-(?<start>\d{1,20})$/;

/** Whether an owner still runs; "unknown" for one of another machine or container. */
export type OwnerState = "running" | "ended" | "unknown";

/** The owner's name of a process, by default this one. */
export function ownerName(owner: ProcessIdentity = { pid: process.pid, start: startOf(process.pid) ?? "0" }): string {
  return `${machineId()}-${owner.pid}-${owner.start}`;
}

/** Whether the process with this owner's name still runs. */
export function ownerState(name: string): OwnerState {
  const { machine, pid, start } = PARTS.exec(name)?.groups ?? {};
  if (machine !== machineId() || pid === undefined) return "unknown";
  const current = startOf(Number(pid));
  // Process ids are reused: a process that started at another time is another process.
  if (current !== undefined) return current === start ? "running" : "ended";
  return isRunning(Number(pid)) ? "running" : "ended";
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && "code" in error && error.code === "ESRCH");
  }
}

/** No start time, for a process that was killed and that its parent has not noticed yet (a zombie). */
const DEAD = "dead";

/** When a process started, in the kernel's ticks; undefined if it does not run, or on systems other than Linux. */
function startOf(pid: number): string | undefined {
  try {
    // The second field is a name in parentheses, which may contain anything; the state is field 3, the start time 22.
    const line = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? DEAD : fields[19];
  } catch {
    return undefined;
  }
}

let knownMachine: string | undefined;

/** The host and, in containers, the PID namespace: elsewhere the same process id is another process. */
function machineId(): string {
  return (knownMachine ??= createHash("sha256").update(`${hostname()} ${processSpace()}`).digest("hex").slice(0, 8));
}

function processSpace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return "";
  }
}
