// The test double of the HIP runtime, built on first use (scripts/build-emulator.mjs) for whichever test asks first.
// Where it cannot be built for want of a compiler the tests that need it skip and say so; a build that fails is a failure.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const SCRIPT = fileURLToPath(new URL("../../../scripts/build-emulator.mjs", import.meta.url));
/** The script's exit status where the machine lacks what it takes. */
const CANNOT_BUILD = 3;

export type EmulatorBuild = { readonly library: string } | { readonly unavailable: string };

let found: EmulatorBuild | undefined;

/** Blocks while it is built: once for each state of its sources, about ten seconds. */
export function findEmulator(): EmulatorBuild {
  found ??= build();
  return found;
}

function build(): EmulatorBuild {
  if (process.platform === "win32") return { unavailable: "the emulator is built on Linux only" };
  const { status, stdout, stderr, error } = spawnSync(process.execPath, [SCRIPT], { encoding: "utf8" });
  if (status === 0) return { library: stdout.trim() };
  const reason = error === undefined ? stderr.trim() : error.message;
  if (status === CANNOT_BUILD) return { unavailable: reason.replace(/^rocmforge: /, "") };
  throw new Error(`the HIP emulator could not be built:\n${reason}`);
}

/** For use in tests under `describeEmulator`. */
export function emulatorLibrary(): string {
  const emulator = findEmulator();
  if ("unavailable" in emulator) throw new Error(emulator.unavailable);
  return emulator.library;
}

/** The body is not even looked at where there is no emulator: it may use it right away. */
export function describeEmulator(title: string, body: () => void): void {
  const emulator = findEmulator();
  const why = "unavailable" in emulator ? ` (skipped: ${emulator.unavailable})` : "";
  const contents = why === "" ? body : placeholder;
  describe.skipIf(why !== "")(`${title}${why}`, () => {
    contents();
  });
}

/** Counted as skipped. */
function placeholder(): void {
  it("needs the emulator", () => {
    expect(findEmulator()).toHaveProperty("library");
  });
}

export interface EmulatorSettings {
  readonly waveSize?: 32 | 64;
  /** What the devices say they are; their compiler need not know it. */
  readonly architecture?: string;
  readonly devices?: number;
  readonly memoryBytes?: number;
  /** What the driver says is free, whatever there is. */
  readonly reportedBytes?: number;
  /** Shared memory of a block. */
  readonly sharedBytes?: number;
  readonly threads?: number;
  /** The last wave, lane and block first. */
  readonly reverse?: boolean;
  /** Lanes of a wave must meet at the same place of the code; slow. */
  readonly strict?: boolean;
  /** `call:n:code` or `lost:n`: see settings.h. */
  readonly failures?: readonly string[];
  /** `stale:n` or `skip:n`: how replays of graphs go wrong, see settings.h. */
  readonly replay?: string;
  /** `file+DEFINE=value:block`, `…:lane` or `…:dot`: modules that the compiler breaks, see settings.h. */
  readonly wrongCode?: readonly string[];
}

/** The variables that make the HIP backend use the test double; for a process, or for this one before the first call. */
export function emulatorEnvironment(settings: EmulatorSettings = {}): Readonly<Record<string, string>> {
  return { ROCMFORGE_HIP_LIBRARY: emulatorLibrary(), ...settingVariables(settings) };
}

/** An empty value is the default. */
export function settingVariables({
  waveSize = 32,
  architecture = "",
  devices,
  memoryBytes,
  reportedBytes,
  sharedBytes,
  threads,
  reverse,
  strict,
  failures = [],
  replay = "",
  wrongCode = [],
}: EmulatorSettings): Readonly<Record<string, string>> {
  return {
    ROCMFORGE_EMULATOR_WAVE: String(waveSize),
    ROCMFORGE_EMULATOR_ARCHITECTURE: architecture,
    ROCMFORGE_EMULATOR_DEVICES: String(devices ?? ""),
    ROCMFORGE_EMULATOR_MEMORY: String(memoryBytes ?? ""),
    ROCMFORGE_EMULATOR_REPORTED: String(reportedBytes ?? ""),
    ROCMFORGE_EMULATOR_SHARED: String(sharedBytes ?? ""),
    ROCMFORGE_EMULATOR_THREADS: String(threads ?? ""),
    ROCMFORGE_EMULATOR_ORDER: reverse === true ? "reverse" : "",
    ROCMFORGE_EMULATOR_STRICT: strict === true ? "1" : "",
    ROCMFORGE_EMULATOR_FAIL: failures.join(","),
    ROCMFORGE_EMULATOR_REPLAY: replay,
    ROCMFORGE_EMULATOR_WRONG: wrongCode.join(","),
  };
}
