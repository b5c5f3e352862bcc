import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { gpuError } from "../drivers/shared/gpu-error.js";
import { DeviceMemory } from "./device-memory.js";
import type { DeviceAddress, GpuDevice } from "../drivers/shared/driver.js";

/** Gives addresses and counts: far apart, so that two pieces never look like neighbours. */
class CountingDevice {
  readonly slabs = new Map<bigint, number>();
  #next = 1n << 20n;

  constructor(readonly totalBytes = Number.POSITIVE_INFINITY) {}

  get usedBytes(): number {
    return [...this.slabs.values()].reduce((sum, bytes) => sum + bytes, 0);
  }

  memory(): { readonly totalBytes: number; readonly freeBytes: number } {
    return { totalBytes: this.totalBytes, freeBytes: this.totalBytes - this.usedBytes };
  }

  allocate(sizeBytes: number): DeviceAddress {
    if (this.usedBytes + sizeBytes > this.totalBytes)
      throw gpuError({ kind: "out of memory", place: "test", what: "no room" });
    const address = this.#next;
    this.#next += BigInt(sizeBytes) + (1n << 20n);
    this.slabs.set(address, sizeBytes);
    return address as DeviceAddress;
  }

  free(address: DeviceAddress): void {
    if (!this.slabs.delete(address)) throw new Error(`${address} was never given, or given back twice`);
  }
}

const asDevice = (device: CountingDevice): GpuDevice => device as unknown as GpuDevice;
const MIB = 1 << 20;

describe("DeviceMemory", () => {
  it("gives blocks that do not overlap, aligned, in few pieces, and everything back", () => {
    const size = fc.integer({ min: 1, max: 3 * MIB });
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.record({ take: size }), fc.record({ drop: fc.nat() })), { maxLength: 60 }),
        (actions) => {
          const device = new CountingDevice();
          const memory = new DeviceMemory(asDevice(device), { slabs: true });
          const held: ReturnType<DeviceMemory["allocate"]>[] = [];
          for (const action of actions) {
            if ("take" in action) held.push(memory.allocate(action.take));
            else if (held.length > 0) memory.free(held.splice(action.drop % held.length, 1)[0]);
            const sorted = held.toSorted((left, right) => Number(left.address - right.address));
            for (const [index, { address, sizeBytes }] of sorted.entries()) {
              expect(address % 256n).toBe(0n);
              if (index > 0)
                expect(sorted[index - 1].address + BigInt(sorted[index - 1].sizeBytes)).toBeLessThanOrEqual(address);
              const inside = [...device.slabs].some(
                ([start, bytes]) => start <= address && address + BigInt(sizeBytes) <= start + BigInt(bytes),
              );
              expect(inside).toBe(true);
            }
            expect(memory.usedBytes).toBe(held.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
          }
          expect(device.slabs.size).toBeLessThan(12);
          for (const block of held) memory.free(block);
          expect(memory.usedBytes).toBe(0);
          memory[Symbol.dispose]();
          expect(device.usedBytes).toBe(0);
        },
      ),
      { numRuns: 50 },
    );
  });

  it("joins neighbours that were freed", () => {
    const device = new CountingDevice();
    const memory = new DeviceMemory(asDevice(device), { slabs: true });
    const blocks = Array.from({ length: 8 }, () => memory.allocate(2 * MIB));
    for (const index of [3, 5, 4]) memory.free(blocks[index]);
    memory.allocate(6 * MIB);
    expect(device.slabs.size).toBe(1);
  });

  it("takes just what is wanted where a slab is too much", () => {
    const device = new CountingDevice(10 * MIB);
    const memory = new DeviceMemory(asDevice(device), { slabs: true });
    memory.allocate(4 * MIB);
    expect(device.usedBytes).toBe(4 * MIB);
    expect(memory.availableBytes).toBe(6 * MIB);
    expect(() => memory.allocate(7 * MIB)).toThrow(expect.objectContaining({ code: "GPU_OUT_OF_MEMORY" }));
    memory.allocate(6 * MIB);
  });

  it("gives unused slabs up before it gives up", () => {
    const device = new CountingDevice(24 * MIB);
    const memory = new DeviceMemory(asDevice(device), { slabs: true });
    memory.free(memory.allocate(MIB));
    expect(device.usedBytes).toBe(16 * MIB);
    memory.allocate(20 * MIB);
    expect(device.usedBytes).toBe(20 * MIB);
  });

  it("reserves memory for blocks that come later, which then ask the driver for nothing", () => {
    const device = new CountingDevice();
    const memory = new DeviceMemory(asDevice(device), { slabs: true });
    memory.reserve([20 * MIB + 1, 30 * MIB, 5]);
    expect(device.slabs.size).toBe(1);
    const blocks = [30 * MIB, 5, 20 * MIB + 1].map((sizeBytes) => memory.allocate(sizeBytes));
    expect(device.slabs.size).toBe(1);
    for (const block of blocks) memory.free(block);
    expect(device.usedBytes).toBe(0);
  });

  it("reserves nothing where there is no room for it, or little is wanted", () => {
    const device = new CountingDevice(40 * MIB);
    const memory = new DeviceMemory(asDevice(device), { slabs: true });
    memory.reserve([100 * MIB]);
    memory.reserve([3 * MIB]);
    expect(device.usedBytes).toBe(0);
    memory.allocate(30 * MIB);
  });

  it("keeps what comes and goes apart from what was reserved, unless that is the only room", () => {
    const device = new CountingDevice(200 * MIB);
    const memory = new DeviceMemory(asDevice(device), { slabs: true });
    memory.reserve([100 * MIB]);
    const apart = memory.allocateApart(50 * MIB);
    expect([...device.slabs.values()]).toEqual([116 * MIB, 50 * MIB]);
    memory.allocate(100 * MIB);
    expect(device.slabs.size).toBe(2);
    memory.free(apart);
    expect(device.slabs.size).toBe(1);
    const whole = new DeviceMemory(asDevice(new CountingDevice(120 * MIB)), { slabs: true });
    whole.reserve([100 * MIB]);
    whole.allocate(MIB);
    whole.allocateApart(50 * MIB);
  });

  it("gives every block a piece of its own where slabs are off, and freeing twice is the same as once", () => {
    const device = new CountingDevice();
    const memory = new DeviceMemory(asDevice(device), { slabs: false });
    const [first] = [memory.allocate(10), memory.allocate(20)];
    expect([...device.slabs.values()]).toEqual([256, 256]);
    memory.free(first);
    memory.free(first);
    expect(device.slabs.size).toBe(1);
    expect(memory.usedBytes).toBe(256);
  });
});
