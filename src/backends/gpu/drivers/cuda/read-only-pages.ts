// Whether the driver takes pages of a read-only file mapping: tried on one page, since what devices say of themselves
// and what drivers do are not always the same.

import { closeSync, openSync } from "node:fs";
import { mapFile, unmap } from "../../../../gguf/ffi.js";
import { packageFile } from "../../../../package-files.js";
import type { DriverCalls } from "../shared/calls.js";

/** A file that is always there. */
const TRIED_FILE = "package.json";
const PAGE_BYTES = 4096;

export function registersReadOnlyPages({ registerHost, unregisterHost }: DriverCalls, flags: number): boolean {
  const descriptor = openSync(packageFile(TRIED_FILE), "r");
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
