// File mappings on Windows, with the functions that ../ffi.ts has for Linux. Loaded by dynamic import on Windows alone.
// A mapped file can be neither deleted nor made shorter there until the last view of it is unmapped.

import type Koffi from "koffi";
import { packageRequire } from "../../package-files.js";
import type { MappedAddress } from "../ffi.js";
import type { MappingCalls } from "../mapping.js";

const koffi = packageRequire("koffi") as typeof Koffi;

// From memoryapi.h and winnt.h.
const PAGE_READONLY = 2;
const FILE_MAP_READ = 4;
const RANGE_BYTES = 16;
/** (HANDLE) -1: this process, or an invalid file. */
const MINUS_ONE = 2n ** 64n - 1n;

const kernel = koffi.load("kernel32.dll");
const createMapping = kernel.func(
  "void *CreateFileMappingW(void *file, void *attributes, uint32_t protection, uint32_t sizeHigh, uint32_t sizeLow, void *name)",
);
const mapView = kernel.func(
  "void *MapViewOfFile(void *mapping, uint32_t access, uint32_t offsetHigh, uint32_t offsetLow, size_t size)",
);
const unmapView = kernel.func("int UnmapViewOfFile(void *address)");
const closeHandle = kernel.func("int CloseHandle(void *handle)");
const lastError = kernel.func("uint32_t GetLastError()");
const prefetch = kernel.func("int PrefetchVirtualMemory(void *process, size_t count, void *ranges, uint32_t flags)");
const unlock = kernel.func("int VirtualUnlock(void *address, size_t size)");
// Descriptors belong to Node's own C library, which only libuv can ask for the handle.
const fileHandle = koffi.load(null).func("void *uv_get_osfhandle(int descriptor)");

function mapFile(descriptor: number, sizeBytes: number): MappedAddress | { readonly errorName: string } {
  const file: unknown = fileHandle(descriptor);
  if (typeof file !== "bigint" || file === MINUS_ONE) return { errorName: "no handle" };
  const mapping: unknown = createMapping(file, null, PAGE_READONLY, 0, 0, null);
  if (typeof mapping !== "bigint" || mapping === 0n) return failure();
  const address: unknown = mapView(mapping, FILE_MAP_READ, 0, 0, sizeBytes);
  const result = typeof address === "bigint" && address !== 0n ? (address as MappedAddress) : failure();
  // The view keeps the mapping.
  closeHandle(mapping);
  return result;
}

function failure(): { readonly errorName: string } {
  return { errorName: `Windows error ${String(lastError())}` };
}

/** Asks the system to read the pages; on another thread, because that waits for the disk. */
function adviseWillNeed(pageAddress: bigint, sizeBytes: number): void {
  const ranges = new BigUint64Array([pageAddress, BigInt(sizeBytes)]);
  // The callback refers to the ranges, so that they live as long as the call.
  prefetch.async(MINUS_ONE, 1, ranges, 0, () => ranges.byteLength === RANGE_BYTES);
}

/** File mappings by the functions of Windows. */
export const windowsMapping: MappingCalls = {
  mapFile,
  unmap: (address) => void unmapView(address),
  adviseWillNeed,
  adviseLargePages: () => {},
  // Unlocking pages that are not locked removes them from the working set.
  adviseNotNeeded: (pageAddress, sizeBytes) => void unlock(pageAddress, sizeBytes),
  mappedBuffer: (address, offset, sizeBytes) => koffi.view(address + BigInt(offset), sizeBytes),
};
