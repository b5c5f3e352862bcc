// The emulated device as one of NVIDIA's sm_90: it says that it is such a card, and computes wide products in the lane layout of
// NVIDIA's. What remains to a real card is the instruction itself.

import { type GpuBackend, openGpuBackend } from "../../src/backends/gpu/backend.js";
import { emulatedHip } from "./emulated-hip.js";
import { watchDriver } from "./watched-device.js";

/** An architecture with such products. */
const WIDE = "sm_90";
/** Of a block on such a card. */
const SHARED_BYTES = 227 * 1024;

export function openWideBackend(): GpuBackend {
  const { driver, compiler } = emulatedHip("wide", { waveSize: 32, sharedBytes: SHARED_BYTES });
  const [{ architecture }] = driver.devices();
  return openGpuBackend({
    driver: watchDriver(driver, ({ properties }) => ({ properties: { ...properties, architecture: WIDE } })),
    // The host's compiler knows the card that the device is.
    compiler: {
      identity: compiler.identity,
      compile: async (source, options) => await compiler.compile(source, { ...options, architecture }),
    },
    name: "hip",
    backendOptions: {},
  });
}
