// Everything that `doctor` finds out about this machine and this installation, as data. Nothing is changed.

import { existsSync } from "node:fs";
import { hostMemory } from "../../backends/host-memory.js";
import { type BackendReport, detectBackends, detectDevices, type DeviceReport } from "../../backends/registry.js";
import { RocmForgeError } from "../../errors.js";
import { ByteSource } from "../../gguf/byte-source.js";
import { MappedFile } from "../../gguf/mapping.js";
import { embeddedModelPath, PACKAGE_VERSION, packageFile } from "../../package-files.js";
import { messageFor } from "../option-words.js";
import { type CachesReport, examineCaches } from "./caches.js";
import { knownProblems, type KnownProblem } from "./known-problems.js";
import { describeMachine, type MachineReport } from "./machine.js";
import { redacted } from "./redaction.js";
import { readSettings, type SettingReport } from "./settings.js";

/** Something that `doctor --fix` did or tried. */
export interface RepairReport {
  readonly what: string;
  /** Why it failed; undefined if it is done. */
  readonly failure?: string;
}

/** What is known before problems are looked for. */
export interface Findings {
  readonly rocmforge: string;
  readonly node: string;
  readonly platform: string;
  readonly machine: MachineReport;
  readonly memory: { readonly totalBytes: number; readonly availableBytes: number };
  readonly mapping: { readonly available: boolean; readonly reason?: string };
  readonly backends: readonly BackendReport[];
  readonly devices: readonly DeviceReport[];
  /** Why the backends could not be probed: a setting that is invalid here. */
  readonly problem?: string;
  /** The backend that `auto` chooses. */
  readonly auto?: string;
  /** If `auto` chooses none, the backend that failed. */
  readonly autoStopsAt?: string;
  readonly caches: CachesReport;
  readonly settings: readonly SettingReport[];
  /** Files of this package that are missing. */
  readonly missingFiles: readonly string[];
}

/** A report of `doctor`. */
export interface Health extends Findings {
  readonly problems: readonly KnownProblem[];
  /** The result of `--build`, if it was given. */
  readonly build?: { readonly built: boolean; readonly reason?: string };
  /** What `--fix` did, if it was given. */
  readonly repairs?: readonly RepairReport[];
}

/** Files that an installation has besides its code. */
const PACKAGE_FILES = ["package.json", "kernels", "dist/page/index.html"];

/** Examines this machine and this installation, for the command of this name. Paths are as they are. */
export async function examine(command: string): Promise<Health> {
  const findings = {
    rocmforge: PACKAGE_VERSION,
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
    machine: describeMachine(),
    memory: hostMemory(),
    mapping: await examineMapping(),
    ...(await examineBackends(command)),
    caches: await examineCaches(),
    settings: readSettings(),
    missingFiles: [...PACKAGE_FILES.map(packageFile), embeddedModelPath()].filter((path) => !existsSync(path)),
  };
  return { ...findings, problems: knownProblems(findings) };
}

/** The report as it may be shown to others. */
export function shareable(health: Health): Health {
  return redacted(health);
}

async function examineBackends(
  command: string,
): Promise<Pick<Findings, "backends" | "devices" | "problem" | "auto" | "autoStopsAt">> {
  try {
    const backends = await detectBackends();
    const devices = await detectDevices();
    const best = backends.find(({ unavailable, stopsAuto }) => unavailable === undefined || stopsAuto === true);
    if (best === undefined) return { backends, devices };
    return { backends, devices, ...(best.stopsAuto === true ? { autoStopsAt: best.name } : { auto: best.name }) };
  } catch (error) {
    if (!(error instanceof RocmForgeError)) throw error;
    return { backends: [], devices: [], problem: messageFor(error, command) };
  }
}

/** Maps a file that always exists, to test whether mapping works. */
async function examineMapping(): Promise<Findings["mapping"]> {
  using source = ByteSource.open(packageFile("package.json"));
  const mapped = await MappedFile.map(source);
  if (!(mapped instanceof MappedFile)) return { available: false, reason: mapped.reason };
  mapped[Symbol.dispose]();
  return { available: true };
}
