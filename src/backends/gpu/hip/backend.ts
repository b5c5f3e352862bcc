// The GPU backend on AMD's runtime.

import type { Backend, BackendOptions } from "../../contract.js";
import { unavailableBackend } from "../../unavailable.js";
import { createGpuBackend } from "../backend.js";
import { isObstacle } from "../native/driver-library.js";
import { findHip } from "./found.js";

export async function createBackend(backendOptions: BackendOptions): Promise<Backend> {
  const found = findHip();
  if (isObstacle(found)) throw unavailableBackend("hip", found);
  return await createGpuBackend({ ...found, name: "hip", backendOptions });
}
