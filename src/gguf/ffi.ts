// The C library's mmap, madvise and munmap. The only file of this folder that imports Koffi; it is loaded by dynamic
// import, so a platform without Koffi still reads files. Koffi's pointers are plain BigInts, so addresses are branded
// here and created nowhere else.

import type Koffi from "koffi";
import { getSystemErrorName } from "node:util";
import { packageRequire } from "../package-files.js";

// Loaded from its installed folder even from a bundle, because it looks for its own binary next to itself.
const koffi = packageRequire("koffi") as typeof Koffi;

declare const addressBrand: unique symbol;
/** The address of a mapped file, which only `mapFile` creates. */
export type MappedAddress = bigint & { readonly [addressBrand]: "MappedAddress" };

// These numbers are the same on every 64-bit Linux.
const PROT_READ = 1;
const MAP_SHARED = 1;
const MADV_WILLNEED = 3;
const MADV_DONTNEED = 4;
const MADV_HUGEPAGE = 14;
const MADV_POPULATE_READ = 22;
/** (void *) -1 */
const MAP_FAILED = 2n ** 64n - 1n;

type LibraryFunction = ReturnType<ReturnType<typeof koffi.load>["func"]>;
let bound: Readonly<Record<"mmap" | "munmap" | "madvise", LibraryFunction>> | undefined;

/** Bound at the first call, because code that may call them is also loaded on platforms that lack them. */
function libraryFunctions(): NonNullable<typeof bound> {
  if (bound !== undefined) return bound;
  // The running program already has its C library open; glibc and musl differ in their file names.
  const program = koffi.load(null);
  bound = {
    mmap: program.func(
      "void *mmap(void *address, size_t length, int protection, int flags, int descriptor, int64_t offset)",
    ),
    munmap: program.func("int munmap(void *address, size_t length)"),
    madvise: program.func("int madvise(void *address, size_t length, int advice)"),
  };
  return bound;
}

/** Maps a whole file for reading; returns the name of the system's error if it refuses. */
export function mapFile(descriptor: number, sizeBytes: number): MappedAddress | { readonly errorName: string } {
  const address: unknown = libraryFunctions().mmap(null, sizeBytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (typeof address === "bigint" && address !== MAP_FAILED) return address as MappedAddress;
  return { errorName: getSystemErrorName(-koffi.errno()) };
}

/** Unmaps a file; all views of it must be unreachable. */
export function unmap(address: MappedAddress, sizeBytes: number): void {
  libraryFunctions().munmap(address, sizeBytes);
}

// Advice may be refused without harm, so its result is ignored; so is that of advice on memory that has been unmapped.

const waitingAdvice: { readonly pageAddress: bigint; readonly sizeBytes: number }[] = [];
let isAdvising = false;

/**
 * Lets the kernel read the pages and map them. Runs on another thread, one call at a time, because the kernel visits every
 * page. What MADV_WILLNEED reads is kept in small pages even if large ones were asked for, so only kernels without
 * MADV_POPULATE_READ (before 5.14) get that.
 */
export function adviseWillNeed(pageAddress: bigint, sizeBytes: number): void {
  waitingAdvice.push({ pageAddress, sizeBytes });
  if (!isAdvising) adviseNext();
}

function adviseNext(): void {
  const next = waitingAdvice.shift();
  isAdvising = next !== undefined;
  if (next === undefined) return;
  const { pageAddress, sizeBytes } = next;
  const { madvise } = libraryFunctions();
  madvise.async(pageAddress, sizeBytes, MADV_POPULATE_READ, (error: unknown, result: unknown) => {
    if (error === null && result === 0) return adviseNext();
    madvise.async(pageAddress, sizeBytes, MADV_WILLNEED, adviseNext);
  });
}

/**
 * Asks for large pages for the parts that are not in memory yet: fewer page faults and faster reads, if the kernel and
 * the file system support it.
 */
export function adviseLargePages(pageAddress: bigint, sizeBytes: number): void {
  libraryFunctions().madvise(pageAddress, sizeBytes, MADV_HUGEPAGE);
}

/** Lets the kernel drop the pages of a range; a later access reads them again. */
export function adviseNotNeeded(pageAddress: bigint, sizeBytes: number): void {
  libraryFunctions().madvise(pageAddress, sizeBytes, MADV_DONTNEED);
}

/** An ArrayBuffer over mapped memory: reading it after `unmap`, or writing to it, crashes the process. */
export function mappedBuffer(address: MappedAddress, offset: number, sizeBytes: number): ArrayBuffer {
  return koffi.view(address + BigInt(offset), sizeBytes);
}
