// Memory of the test double: limits, alignment, what copies are refused, and what a stray access comes to.

import { afterAll, beforeEach, expect, it } from "vitest";
import { describeEmulator } from "./build.js";
import { bytes, Emulator, viewOf } from "./ffi.js";
import { compile, download, Gate, TEST_KERNELS, TestKernels, upload } from "./programs.js";

const PAGE = 4096;

describeEmulator("memory of the HIP emulator", () => {
  const emulator = new Emulator();
  const { image } = compile(emulator, TEST_KERNELS, 32);
  let kernels: TestKernels;

  beforeEach(() => {
    emulator.reset();
    kernels = new TestKernels(emulator, image);
  });
  afterAll(() => emulator.reset());

  const counting = (count: number): Uint32Array<ArrayBuffer> =>
    Uint32Array.from({ length: count }, (_, index) => index + 1);

  it("aligns to 256 bytes, reports what is used and refuses more than there is", () => {
    emulator.reset({ memoryBytes: 1 << 20 });
    const out = bytes(16);
    const memory = (): readonly bigint[] => {
      emulator.do("hipMemGetInfo", out.subarray(0, 8), out.subarray(8));
      return [...new BigUint64Array(out.buffer)];
    };
    expect(memory()).toEqual([1n << 20n, 1n << 20n]);
    const addresses = [1, 100, 4096, 5000].map((size) => emulator.get("hipMalloc", size));
    for (const address of addresses) expect(address % 256n).toBe(0n);
    expect(memory()[0]).toBe((1n << 20n) - 256n - 256n - 4096n - 5120n);
    expect(emulator.status("hipMalloc", bytes(8), (1 << 20) - 4096)).toBe(2);
    expect(emulator.text("hipGetErrorName", 2)).toBe("hipErrorOutOfMemory");
    for (const address of addresses) emulator.do("hipFree", address);
    expect(memory()).toEqual([1n << 20n, 1n << 20n]);
    expect(emulator.count("allocations")).toBe(0);
  });

  it("takes no more than the address space has", () => {
    expect(emulator.status("hipMalloc", bytes(8), 2 ** 53 - 1)).toBe(2);
  });

  it("copies to the device, on it and back", () => {
    const source = upload(emulator, counting(1000));
    const target = emulator.get("hipMalloc", 4000);
    emulator.do("hipMemcpyDtoDAsync", target + 400n, source, 3600, 0n);
    emulator.do("hipMemsetD8Async", target, 7, 400, 0n);
    const found = download(emulator, target, 1000);
    expect([...found.subarray(0, 100)]).toEqual(Array.from({ length: 100 }, () => 0x07070707));
    expect([...found.subarray(100)]).toEqual([...counting(900)]);
  });

  it("gives memory that holds no zeros", () => {
    const address = emulator.get("hipMalloc", 64);
    expect(new Set(download(emulator, address, 16))).toEqual(new Set([0xffffffff]));
  });

  it("refuses copies and fills that leave the allocation, and copies that overlap", () => {
    const address = emulator.get("hipMalloc", 1000);
    const other = emulator.get("hipMalloc", 1000);
    const host = bytes(2000);
    expect(emulator.status("hipMemcpyHtoDAsync", address, host, 1001, 0n)).toBe(1);
    expect(emulator.message()).toContain("allocation of 1000 bytes");
    expect(emulator.status("hipMemcpyHtoDAsync", address - 1n, host, 10, 0n)).toBe(1);
    expect(emulator.status("hipMemcpyDtoHAsync", host, address + 999n, 2, 0n)).toBe(1);
    expect(emulator.status("hipMemsetD8Async", address + 1n, 0, 1000, 0n)).toBe(1);
    expect(emulator.status("hipMemcpyDtoDAsync", other, address, 1001, 0n)).toBe(1);
    expect(emulator.status("hipMemcpyDtoDAsync", address + 100n, address, 101, 0n)).toBe(1);
    expect(emulator.message()).toContain("overlaps");
    expect(emulator.status("hipMemcpyDtoDAsync", address + 100n, address, 100, 0n)).toBe(0);
    expect(emulator.status("hipMemcpyHtoDAsync", address, host, 10, 0x1234n)).toBe(400);
  });

  it("knows a pointer that was freed, given twice or never given", () => {
    const address = emulator.get("hipMalloc", 1000);
    expect(emulator.status("hipFree", address + 16n)).toBe(1);
    expect(emulator.status("hipHostFree", address)).toBe(1);
    emulator.do("hipFree", address);
    expect(emulator.status("hipFree", address)).toBe(1);
    expect(emulator.message()).toMatch(/a freed device allocation of 1000 bytes/);
    expect(emulator.status("hipMemcpyHtoDAsync", address, bytes(10), 10, 0n)).toBe(1);
    emulator.do("hipFree", 0n);
  });

  it("turns a read past the end into hipErrorIllegalAddress, for good", () => {
    const out = upload(emulator, counting(1));
    const array = upload(emulator, counting(PAGE / 4));
    expect(kernels.run("read_at", [array, BigInt(PAGE / 4 - 1), out])).toBe(0);
    expect(download(emulator, out, 1)[0]).toBe(PAGE / 4);
    expect(kernels.run("read_at", [array, BigInt(PAGE / 4), out])).toBe(700);
    expect(emulator.message()).toMatch(
      /^kernel read_at, block \(0, 0, 0\), thread 7: read from 0x\w+, 0 bytes past the end of a live device allocation of 4096 bytes at 0x\w+$/,
    );
    expect(emulator.status("hipMalloc", bytes(8), 16)).toBe(700);
    expect(kernels.launch("read_at", [array, 0n, out])).toBe(700);
    expect(emulator.status("hipStreamSynchronize", 0n)).toBe(700);
    expect(emulator.status("hipFree", array)).toBe(700);
    expect(emulator.count("allocations")).toBe(1);
    expect(emulator.status("hipGetLastError")).toBe(700);
    expect(emulator.status("hipGetLastError")).toBe(0);
  });

  it("turns a write before the start into hipErrorIllegalAddress", () => {
    const array = upload(emulator, counting(PAGE / 4));
    expect(kernels.run("write_at", [array, 2n ** 64n - 1n, array])).toBe(700);
    expect(emulator.message()).toMatch(
      /thread 7: wrote to 0x\w+, 4 bytes before the start of a live device allocation of 4096 bytes/,
    );
  });

  it("finds what was written between the end and the guard page", () => {
    const array = upload(emulator, counting(10));
    expect(kernels.run("write_at", [array, 10n, array])).toBe(700);
    expect(emulator.message()).toMatch(/^kernel write_at wrote past the end of a device allocation of 40 bytes/);
  });

  it("finds what was written before the start of a small one, also among many", () => {
    const arrays = Array.from({ length: 100 }, () => upload(emulator, counting(10)));
    expect(kernels.run("write_at", [arrays[50], 2n ** 64n - 1n, arrays[50]])).toBe(700);
    expect(emulator.message()).toMatch(/wrote before the start of a device allocation of 40 bytes/);
  });

  it("makes memory that was freed fault", () => {
    const out = upload(emulator, counting(1));
    const array = upload(emulator, counting(100));
    emulator.do("hipFree", array);
    for (let index = 0; index < 10; index++) upload(emulator, counting(100));
    expect(kernels.run("read_at", [array, 5n, out])).toBe(700);
    expect(emulator.message()).toMatch(/read from 0x\w+, 20 bytes into a freed device allocation of 400 bytes/);
  });

  it("lets work on memory end before it frees it", () => {
    const array = upload(emulator, counting(1 << 20));
    const stream = emulator.get("hipStreamCreateWithFlags", 1);
    for (let index = 0; index < 50; index++)
      expect(kernels.launch("write_at", [array, BigInt(index), array], { stream })).toBe(0);
    emulator.do("hipFree", array);
    emulator.do("hipStreamSynchronize", stream);
  });

  it("pins host memory, copies to it behind the program's back, and to other memory at once", () => {
    const pinned = emulator.get("hipHostMalloc", 4, 0);
    const stream = emulator.get("hipStreamCreateWithFlags", 1);
    const counter = upload(emulator, counting(1));
    const gate = new Gate(emulator, kernels);
    viewOf(pinned, 4)[0] = 5;
    gate.shut(stream);
    expect(kernels.launch("increment", [counter, 1n, counter], { stream })).toBe(0);
    emulator.do("hipMemcpyDtoHAsync", pinned, counter, 4, stream);
    expect(viewOf(pinned, 4)[0]).toBe(5);
    gate.open();
    emulator.do("hipStreamSynchronize", stream);
    expect(viewOf(pinned, 4)[0]).toBe(2);
    const plain = bytes(4);
    for (let index = 0; index < 50; index++)
      expect(kernels.launch("increment", [counter, 1n, counter], { stream })).toBe(0);
    emulator.do("hipMemcpyDtoHAsync", plain, counter, 4, stream);
    expect(plain[0]).toBe(52);
    emulator.do("hipHostFree", pinned);
    expect(emulator.status("hipFree", pinned)).toBe(1);
  });

  it("registers host memory once, and forgets it when told", () => {
    const memory = bytes(3 * PAGE);
    emulator.do("hipHostRegister", memory, 2 * PAGE, 0);
    expect(emulator.status("hipHostRegister", memory.subarray(PAGE), PAGE, 0)).toBe(712);
    expect(emulator.count("registrations")).toBe(1);
    emulator.do("hipHostUnregister", memory);
    expect(emulator.status("hipHostUnregister", memory)).toBe(713);
    expect(emulator.status("hipHostRegister", 4096n, PAGE, 0)).toBe(1);
  });
});
