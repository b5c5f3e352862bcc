// `rocmforge devices` on the emulated device, and without a device.

import { describe, expect, it } from "vitest";
import { describeEmulator, emulatorEnvironment } from "../gpu/emulator/build.js";
import { rocmforge } from "./command-line.js";

const NOWHERE = { ROCMFORGE_HIP_LIBRARY: "/nowhere/libamdhip64.so", ROCMFORGE_CUDA_LIBRARY: "/nowhere/libcuda.so.1" };

/** The command line inherits this process's environment. */
async function devices(
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
  command = "devices",
): ReturnType<typeof rocmforge> {
  const before = { ...process.env };
  Object.assign(process.env, environment);
  try {
    return await rocmforge([command, ...args]);
  } finally {
    for (const name of Object.keys(environment)) delete process.env[name];
    Object.assign(process.env, before);
  }
}

describe("rocmforge devices", () => {
  it("says for what cannot be used why, and what to do", async () => {
    const { status, stdout, stderr } = await devices([], NOWHERE);
    expect(status).toBe(0);
    expect(stderr).toBe("");
    expect(stdout).toMatch(
      /^hip: not available\n {2}because +ROCMFORGE_HIP_LIBRARY names a library .*\n {2}what to do +correct or unset ROCMFORGE_HIP_LIBRARY\n\ncuda: not available\n/,
    );
  });

  it("gives the same as JSON", async () => {
    const { stdout } = await devices(["--json"], NOWHERE);
    const { drivers } = JSON.parse(stdout) as { readonly drivers: readonly Record<string, unknown>[] };
    expect(drivers.map(({ backend }) => backend)).toEqual(["hip", "cuda"]);
    for (const driver of drivers)
      expect(driver).toMatchObject({
        devices: [],
        unavailable: { reason: expect.any(String), remedy: expect.any(String) },
      });
  });
});

describeEmulator("rocmforge devices with a device", () => {
  it("lists them with driver and compiler, and which would be taken", async () => {
    const { status, stdout } = await devices([], { ...NOWHERE, ...emulatorEnvironment({ devices: 2, waveSize: 64 }) });
    expect(status).toBe(0);
    expect(stdout).toMatch(
      /^hip: ready\n {2}driver +HIP 6\.\S+ \(.+\)\n {2}compiler +hiprtc .*\n {2}device 0 +.*, shares the host's memory\n {2}device 1 +.*, gfx90a, 2\.15 GB, 4 multiprocessors, waves of 64\n {2}takes +1: device 1 of 2, a discrete card with its own memory\n/,
    );
  });
  it("says of a card that it does not know why it cannot be used, as doctor does", async () => {
    const environment = { ...NOWHERE, ...emulatorEnvironment({ architecture: "quantum-1" }) };
    const reason = /this card is not supported: HIP reports the architecture "quantum-1", which is not a valid name/;
    const { stdout } = await devices([], environment);
    expect(stdout).toMatch(/^hip: not available\n/);
    expect(stdout).toMatch(reason);
    const { backends, autoStopsAt } = JSON.parse((await devices(["--json"], environment, "doctor")).stdout) as {
      readonly backends: readonly { readonly name: string; readonly unavailable?: { readonly reason: string } }[];
      readonly autoStopsAt?: string;
    };
    expect(backends.find(({ name }) => name === "hip")?.unavailable?.reason).toMatch(reason);
    expect(autoStopsAt).toBe("hip");
  });
});
