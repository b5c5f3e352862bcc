// Probes for a kernel driver by its device files: most machines have none, and learn it without loading any library. A
// library that the environment names is always tried.

import { existsSync } from "node:fs";
import { constants } from "node:os";
import type { DriverKind } from "./driver.js";
import type { UnavailableDriver } from "./driver-library.js";

/**
 * What each library opens, the usual file first; /dev/dxg is Windows' Linux, the last two are NVIDIA's small boards.
 */
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

/** Why there can be no device; undefined if there may be one. */
export function absentDriver(kind: DriverKind): UnavailableDriver | undefined {
  if ((process.env[VARIABLES[kind]] ?? "") !== "" || DEVICE_FILES[kind].some((file) => existsSync(file)))
    return undefined;
  const { card, driver } = WORDS[kind];
  return {
    kind: "device not found",
    reason: `there is no ${card}, or no ${driver} in the kernel (${DEVICE_FILES[kind][0]} is missing)`,
    remedy: `install the ${driver} if there is a card; \`backend: "cpu"\` runs on this machine's processor`,
    expected: true,
    details: { call: "access", number: constants.errno.ENOENT, name: "ENOENT", file: DEVICE_FILES[kind][0] },
  };
}
