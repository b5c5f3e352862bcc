// Whether the driver can register pages of a read-only file mapping. One page is tried, because the device's attribute
// and the driver's behaviour do not always agree.

import { closeSync, openSync } from "node:fs";
import { mapFile, unmap } from "../../../../gguf/ffi.js";
import { packageFile } from "../../../../package-files.js";
import type { DriverCalls } from "../shared/calls.js";

/** A file that exists in every installation. */
const TRIED_FILE = "package.json";
const PAGE_BYTES = 4096;

/** Tries to register one page of a mapped file with the device. */
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
