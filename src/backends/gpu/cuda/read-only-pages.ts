// Whether the driver takes pages of a read-only file mapping: tried on one page, since what devices say of themselves and
// what drivers do are not always the same.

import { closeSync, openSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { mapFile, unmap } from "../../../gguf/ffi.js";
import type { DriverCalls } from "../native/calls.js";

/** Four folders up from src/backends/gpu/cuda/ and from dist/backends/gpu/cuda/ alike: a file that is always there. */
const TRIED_FILE = fileURLToPath(new URL("../../../../package.json", import.meta.url));
const PAGE_BYTES = 4096;

export function registersReadOnlyPages({ registerHost, unregisterHost }: DriverCalls, flags: number): boolean {
  const descriptor = openSync(TRIED_FILE, "r");
  try {
    const address = mapFile(descriptor, PAGE_BYTES);
    if (typeof address !== "bigint") return false;
    try {
      if (registerHost(address, PAGE_BYTES, flags) !== 0) return false;
      return unregisterHost(address) === 0;
    } finally {
      unmap(address, PAGE_BYTES);
    }
  } finally {
    closeSync(descriptor);
  }
}
