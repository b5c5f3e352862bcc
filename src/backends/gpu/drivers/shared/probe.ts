// Probes for a kernel driver by its device files: most machines have none and find that out without loading a library.
// A library that the environment names is always tried.

import { existsSync } from "node:fs";
import { constants } from "node:os";
import type { DriverKind } from "./driver.js";
import type { UnavailableDriver } from "./driver-library.js";

/** The files that each library opens, the usual one first; /dev/dxg is WSL, the last two are NVIDIA's Jetson boards. */
const DEVICE_FILES: Readonly<Record<DriverKind, readonly string[]>> = {
  hip: ["/dev/kfd", "/dev/dxg"],
  cuda: ["/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl", "/dev/nvmap"],
};
const VARIABLES: Readonly<Record<DriverKind, string>> = {
  hip: "ROCMFORGE_HIP_LIBRARY",
  cuda: "ROCMFORGE_CUDA_LIBRARY",
};
const WORDS: Readonly<Record<DriverKind, { readonly card: string; readonly driver: string }>> = {
  hip: { card: "AMD GPU", driver: "amdgpu driver" },
  cuda: { card: "NVIDIA GPU", driver: "NVIDIA driver" },
};

/** Why this machine can have no device of this kind; undefined if it may have one. */
export function absentDriver(kind: DriverKind): UnavailableDriver | undefined {
  if (process.platform === "win32") return absentOnWindows(kind);
  if ((process.env[VARIABLES[kind]] ?? "") !== "" || DEVICE_FILES[kind].some((file) => existsSync(file)))
    return undefined;
  const { card, driver } = WORDS[kind];
  return {
    kind: "device not found",
    reason: `there is no ${card}, or no ${driver} in the kernel (${DEVICE_FILES[kind][0]} is missing)`,
    remedy: `install the ${driver} if there is a card; \`backend: "cpu"\` runs on this machine's CPU`,
    expected: true,
    details: { call: "access", number: constants.errno.ENOENT, name: "ENOENT", file: DEVICE_FILES[kind][0] },
  };
}

/** Windows has no device files: HIP's library says whether there is a card. */
function absentOnWindows(kind: DriverKind): UnavailableDriver | undefined {
  if (kind === "hip" || (process.env[VARIABLES[kind]] ?? "") !== "") return undefined;
  return {
    kind: "device not found",
    reason: `the backend ${kind} does not support Windows yet`,
    remedy: '`backend: "cpu"` runs on this machine\'s CPU; in WSL the GPU backends are those of Linux',
    expected: true,
    details: { call: "platform", name: "win32" },
  };
}
