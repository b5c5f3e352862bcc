// Tests of models that a backend does not support yet are skipped with the backend's own reason.

import type { TestContext } from "vitest";
import { RocmForgeError } from "../../src/errors.js";

/** Runs `use`; a file or an operation that is not supported skips the test with the reason. */
export async function skipUnsupported(skip: TestContext["skip"], use: () => Promise<void>): Promise<void> {
  try {
    await use();
  } catch (error) {
    const unsupported =
      error instanceof RocmForgeError && (error.code === "MODEL_UNSUPPORTED" || error.code === "BACKEND_UNSUPPORTED");
    if (!unsupported) throw error;
    skip(error.message.replace(/^.*?: /, ""));
  }
}
