// The GPU backend on this machine's own NVIDIA card, where there is one; elsewhere its tests skip and say why.

import { describe } from "vitest";
import type { BackendOptions } from "../../src/backends/contract.js";
import { type GpuBackend, openGpuBackend } from "../../src/backends/gpu/backend.js";
import { detectCuda } from "../../src/backends/gpu/drivers/cuda/detect.js";
import { isUnavailableDriver } from "../../src/backends/gpu/drivers/shared/driver-library.js";

const found = detectCuda();
const absence = isUnavailableDriver(found) ? found.reason : undefined;

export function openCard(backendOptions: BackendOptions = {}): GpuBackend {
  if (isUnavailableDriver(found)) throw new Error(found.reason);
  return openGpuBackend({ ...found, name: "cuda", backendOptions });
}

export function describeCard(title: string, body: () => void): void {
  const why = absence === undefined ? "" : ` (skipped: ${absence})`;
  describe.skipIf(absence !== undefined)(`${title}${why}`, () => {
    body();
  });
}
