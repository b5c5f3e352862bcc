// A file mapped into memory, and the views of it. Reading a view after munmap would crash the process, and an external
// ArrayBuffer can be neither detached nor transferred in Node 20; so disposal releases the pages at once but unmaps the
// address range only when the last view has been garbage-collected. Views are read-only memory.

import { endianness } from "node:os";
import { Lifetime } from "../lifetime.js";
import type { ByteSource } from "./byte-source.js";
import type { MappedAddress } from "./ffi.js";
import { MAX_VIEW_BYTES } from "./limits.js";

/** The system's functions for file mappings. */
export type MappingCalls = Pick<
  typeof import("./ffi.js"),
  "mapFile" | "unmap" | "adviseWillNeed" | "adviseLargePages" | "adviseNotNeeded" | "mappedBuffer"
>;

/** The size of a large page of x64 and arm64, and a multiple of every other page size. */
const LARGE_PAGE_BYTES = 2 * 1024 * 1024;
const WIDE_ARCHITECTURES: ReadonlySet<string> = new Set(["x64", "arm64", "riscv64", "loong64"]);

/**
 * The part of a mapping that lives as long as its views: the finalization registry refers to it, and it refers to no
 * view.
 */
interface Region {
  readonly calls: MappingCalls;
  readonly address: MappedAddress;
  readonly sizeBytes: number;
  liveViews: number;
  ended: boolean;
}

function unmapWhenUnused(region: Region): void {
  if (region.ended && region.liveViews === 0) region.calls.unmap(region.address, region.sizeBytes);
}

const collectedViews = new FinalizationRegistry<Region>((region) => {
  region.liveViews--;
  unmapWhenUnused(region);
});

/** Why files cannot be mapped on this platform; undefined if they can. */
export function mappingUnavailableReason(
  platform: string = process.platform,
  architecture: string = process.arch,
): string | undefined {
  if (platform !== "linux" && platform !== "win32")
    return `files are not mapped on ${platform}; tensors are read positionally`;
  if (!WIDE_ARCHITECTURES.has(architecture) || endianness() !== "LE") {
    return `${architecture} is not a 64-bit little-endian architecture; tensors are read positionally`;
  }
  return undefined;
}

async function loadCalls(): Promise<MappingCalls> {
  return process.platform === "win32" ? (await import("./windows/ffi.js")).windowsMapping : await import("./ffi.js");
}

/** A file mapped into memory; disposal releases its pages. */
export class MappedFile implements Disposable {
  readonly sizeBytes: number;
  readonly #region: Region;
  readonly #lifetime: Lifetime;
  /** One ArrayBuffer per tensor while it is referenced, because V8 counts each against its memory limits. */
  readonly #buffers = new Map<number, WeakRef<ArrayBuffer>>();

  private constructor(region: Region, path: string) {
    this.#region = region;
    this.sizeBytes = region.sizeBytes;
    this.#lifetime = new Lifetime(`the mapping of ${path}`);
  }

  /** Maps the file, or returns the reason why it cannot be mapped. */
  static async map(source: ByteSource): Promise<MappedFile | { readonly reason: string }> {
    const reason = mappingUnavailableReason();
    if (reason !== undefined) return { reason };
    let calls: MappingCalls;
    try {
      calls = await loadCalls();
    } catch (error) {
      return { reason: `Koffi did not load: ${error instanceof Error ? error.message : String(error)}` };
    }
    const { sizeBytes } = source;
    const address = calls.mapFile(source.descriptor, sizeBytes);
    if (typeof address !== "bigint") return { reason: `${source.path} could not be mapped: ${address.errorName}` };
    calls.adviseLargePages(address, sizeBytes);
    return new MappedFile({ calls, address, sizeBytes, liveViews: 0, ended: false }, source.path);
  }

  /** The address of the mapping, for native code, which must not use it after this object is disposed. */
  get address(): bigint {
    this.#lifetime.assertAlive();
    return this.#region.address;
  }

  /**
   * Bytes of the file without a copy; undefined if they exceed the largest possible view. The caller checks the file's
   * size.
   */
  view(offset: number, sizeBytes: number): Uint8Array | undefined {
    this.#lifetime.assertAlive();
    if (sizeBytes > MAX_VIEW_BYTES || offset < 0 || offset + sizeBytes > this.sizeBytes) return undefined;
    const known = this.#buffers.get(offset)?.deref();
    if (known?.byteLength === sizeBytes) return new Uint8Array(known);
    const buffer = this.#region.calls.mappedBuffer(this.#region.address, offset, sizeBytes);
    this.#region.liveViews++;
    collectedViews.register(buffer, this.#region);
    this.#buffers.set(offset, new WeakRef(buffer));
    return new Uint8Array(buffer);
  }

  /** Asks the system to read a range soon, in whole large pages: a large page that is read in parts becomes small ones. */
  adviseWillNeed(offset: number, sizeBytes: number): void {
    this.#lifetime.assertAlive();
    const start = Math.floor(offset / LARGE_PAGE_BYTES) * LARGE_PAGE_BYTES;
    const end = Math.min(Math.ceil((offset + sizeBytes) / LARGE_PAGE_BYTES) * LARGE_PAGE_BYTES, this.sizeBytes);
    this.#region.calls.adviseWillNeed(this.#region.address + BigInt(start), end - start);
  }

  [Symbol.dispose](): void {
    if (!this.#lifetime.end()) return;
    this.#region.ended = true;
    if (this.#region.liveViews > 0) this.#region.calls.adviseNotNeeded(this.#region.address, this.sizeBytes);
    unmapWhenUnused(this.#region);
  }
}
