// The GPU backend on NVIDIA's driver.

import type { Backend, BackendOptions } from "../../contract.js";
import { unavailableBackend } from "../../unavailable.js";
import { createGpuBackend } from "../backend.js";
import { isObstacle } from "../native/driver-library.js";
import { findCuda } from "./found.js";

export async function createBackend(backendOptions: BackendOptions): Promise<Backend> {
  const found = findCuda();
  if (isObstacle(found)) throw unavailableBackend("cuda", found);
  return await createGpuBackend({ ...found, name: "cuda", backendOptions });
}
