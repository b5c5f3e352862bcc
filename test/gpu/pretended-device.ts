// The emulated device as another card: it says that it is one, so that lowering takes the kernels that are for it, and computes
// their products in the card's lane layout and with its order of loads. What remains to a real card is the instruction itself.

import { type GpuBackend, openGpuBackend } from "../../src/backends/gpu/backend.js";
import type { DetectedHip } from "../../src/backends/gpu/drivers/hip/detect.js";
import type { GpuCompiler, GpuDriver } from "../../src/backends/gpu/drivers/shared/driver.js";
import { emulatedHip, type WaveSize } from "./emulated-hip.js";
import { watchDriver } from "./watched-device.js";

export interface Pretence {
  readonly architecture: string;
  readonly waveSize: WaveSize;
  /** Of a block. */
  readonly sharedBytes?: number;
}

/** What the plain form of matrix units needs of a block's shared memory (device/matrix-unit-amd.h): eight waves, 1 KiB each. */
const PLAIN_MATRIX_BYTES = 8 * 1024;

/** The same runtime with devices that say they are of this architecture, and that blocks have so much shared memory. */
export function pretending(
  { driver, compiler }: Pick<DetectedHip, "driver" | "compiler">,
  pretended: string,
  sharedBytes?: number,
): { readonly driver: GpuDriver; readonly compiler: GpuCompiler } {
  const [{ architecture }] = driver.devices();
  return {
    driver: watchDriver(driver, ({ properties }) => ({
      properties: { ...properties, architecture: pretended, ...(sharedBytes === undefined ? {} : { sharedBytes }) },
    })),
    // The host's compiler knows the card that the device is.
    compiler: {
      identity: compiler.identity,
      compile: async (source, options) =>
        await compiler.compile(source, {
          ...options,
          architecture,
          defines: pretended.startsWith("sm_") ? { ...options.defines, INPUTS_FIRST: 0 } : options.defines,
        }),
    },
  };
}

export function openPretended({ architecture, waveSize, sharedBytes }: Pretence): GpuBackend {
  const settings = {
    waveSize,
    ...(sharedBytes === undefined ? {} : { sharedBytes: sharedBytes + PLAIN_MATRIX_BYTES }),
  };
  const hip = pretending(emulatedHip(`${architecture}-${waveSize}`, settings), architecture, sharedBytes);
  return openGpuBackend({ ...hip, name: "hip", backendOptions: {} });
}

/** One of NVIDIA's with wide products. */
export function openWideBackend(): GpuBackend {
  return openPretended({ architecture: "sm_90", waveSize: 32, sharedBytes: 227 * 1024 });
}
