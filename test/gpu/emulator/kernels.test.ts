// Kernels on the test double: threads, waves, barriers, shared memory, and the mistakes that a device does not forgive.

import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { describeEmulator } from "./build.js";
import { Emulator } from "./ffi.js";
import { compile, download, PORTABLE, TEST_KERNELS, TestKernels, upload } from "./programs.js";

const counting = (count: number): Uint32Array<ArrayBuffer> =>
  Uint32Array.from({ length: count }, (_, index) => index + 1);

describeEmulator("kernels on the HIP emulator", () => {
  const emulator = new Emulator();
  afterAll(() => emulator.reset());

  for (const waveSize of [32, 64] as const) {
    describe(`waves of ${waveSize}`, () => {
      emulator.reset({ waveSize });
      const { image, log } = compile(emulator, TEST_KERNELS, waveSize);
      let kernels: TestKernels;

      it("compiles them without a word", () => {
        expect(log).toBe("");
      });

      for (const order of ["forward", "reverse"] as const) {
        describe(`${order} order`, () => {
          beforeEach(() => {
            emulator.reset({ waveSize, reverse: order === "reverse" });
            kernels = new TestKernels(emulator, image);
          });

          const result = (name: string, count: number, sharedBytes = 0): number[] => {
            const input = upload(emulator, counting(count));
            const out = emulator.get("hipMalloc", 4 * count);
            const status = kernels.run(name, [input, out], { sharedBytes });
            if (status !== 0) throw new Error(`${status}: ${emulator.message()}`);
            return [...download(emulator, out, count)];
          };

          it("runs every thread of every block once", () => {
            const out = emulator.get("hipMalloc", 4 * 96 * 30);
            expect(kernels.run("write_index", [out, 3], { grid: [3, 2, 5] })).toBe(0);
            expect([...download(emulator, out, 96 * 30)]).toEqual(
              Array.from({ length: 96 * 30 }, (_, index) => Math.floor(index / 96) * 1000 + (index % 96)),
            );
          });

          it("exchanges values within a wave", () => {
            const expected = Array.from(
              { length: 128 },
              (_, thread) => Math.floor(thread / waveSize) * waveSize + (waveSize - (thread % waveSize)),
            );
            expect(result("wave_reverse", 128)).toEqual(expected);
            const sums = Array.from({ length: 128 }, (_, thread) => {
              const first = Math.floor(thread / waveSize) * waveSize + 1;
              return (waveSize * (2 * first + waveSize - 1)) / 2;
            });
            expect(result("wave_sums", 128)).toEqual(sums);
          });

          it("meets at barriers of the block", () => {
            expect(new Set(result("block_sums", 256))).toEqual(
              new Set([
                ((256 * 257) / 2) * 100_000 +
                  (256 * 255) / 2 -
                  Math.floor((((256 * 257) / 2) * 100_000 + (256 * 255) / 2) / 2 ** 32) * 2 ** 32,
              ]),
            );
            expect(result("dynamic_reverse", 128, 512)).toEqual(
              Array.from({ length: 128 }, (_, thread) => 128 - thread),
            );
          });

          it("does not wait at a barrier for threads that have returned", () => {
            expect(result("early_end_at_barrier", 128).slice(0, 100)).toEqual(
              Array.from({ length: 100 }, (_, thread) => 100 - thread),
            );
          });
        });
      }

      describe("mistakes", () => {
        beforeEach(() => {
          emulator.reset({ waveSize });
          kernels = new TestKernels(emulator, image);
        });

        const failure = (name: string): string => {
          const input = upload(emulator, counting(128));
          expect(kernels.run(name, [input, input])).toBe(719);
          expect(emulator.status("hipDeviceSynchronize")).toBe(719);
          return emulator.message();
        };

        it("finds lanes that wait for each other at different kinds of meeting", () => {
          expect(failure("different_kinds")).toMatch(
            /^kernel different_kinds, block \(0, 0, 0\), thread 5: lanes of one wave wait for each other at different kinds of meeting$/,
          );
        });

        it("finds a lane that ended before the rest of its wave exchanged", () => {
          expect(failure("early_end")).toContain("a lane ended before the rest of its wave exchanged values");
        });

        it("finds lanes that meet at different places, when it is strict", () => {
          const input = upload(emulator, counting(128));
          expect(kernels.run("different_places", [input, input])).toBe(0);
          emulator.reset({ waveSize, strict: true });
          kernels = new TestKernels(emulator, compile(emulator, TEST_KERNELS, waveSize).image);
          const fresh = upload(emulator, counting(128));
          expect(kernels.run("wave_sums", [fresh, fresh])).toBe(0);
          expect(failure("different_places")).toContain("lanes of one wave meet at different places of the code");
        });

        it("finds a lane that reads from one that the block does not have", () => {
          const input = upload(emulator, counting(64));
          expect(kernels.run("half_wave", [input, input])).toBe(waveSize === 64 ? 719 : 0);
          if (waveSize === 64)
            expect(emulator.message()).toContain("a lane reads from a lane that its block does not have");
        });

        it("shows a forgotten barrier by the order of threads", () => {
          const results = [false, true].map((reverse) => {
            emulator.reset({ waveSize, reverse });
            kernels = new TestKernels(emulator, image);
            const input = upload(emulator, counting(64));
            const out = emulator.get("hipMalloc", 256);
            expect(kernels.run("no_barrier", [input, out])).toBe(0);
            return [...download(emulator, out, 64)];
          });
          expect(results[0]).not.toEqual(results[1]);
        });
      });
    });
  }

  describe("memory of a block", () => {
    emulator.reset();
    const { image } = compile(emulator, TEST_KERNELS, 32);
    let kernels: TestKernels;

    beforeEach(() => {
      emulator.reset({ threads: 1 });
      kernels = new TestKernels(emulator, image);
    });

    it("finds in shared memory nothing of the blocks before", () => {
      const out = emulator.get("hipMalloc", 256);
      expect(kernels.run("shared_remains", [out, out], { grid: [3, 1, 1], sharedBytes: 128 })).toBe(0);
      expect(new Set(download(emulator, out, 64))).toEqual(new Set([0xffffffff]));
    });

    it("faults on dynamic shared memory past its end", () => {
      const out = emulator.get("hipMalloc", 128);
      expect(kernels.run("past_shared", [out, out], { sharedBytes: 128 })).toBe(0);
      expect(kernels.run("past_shared", [out, out], { sharedBytes: 112 })).toBe(700);
    });

    it("gives at most 64 KiB of it, or what was set last, be it less than before", () => {
      const out = emulator.get("hipMalloc", 128);
      const run = (sharedBytes: number): number => kernels.run("past_shared", [out, out], { sharedBytes });
      expect([run(64 << 10), run((64 << 10) + 1)]).toEqual([0, 1]);
      const kernel = emulator.get("hipModuleGetFunction", kernels.module, "past_shared");
      const allow = (sizeBytes: number): number => emulator.status("hipFuncSetAttribute", kernel, 8, sizeBytes);
      expect([allow(60_000), run(60_000), run(60_001)]).toEqual([0, 0, 1]);
      expect(emulator.message()).toBe("kernel past_shared may have 60000 bytes of dynamic shared memory, not 60001");
      expect([allow(50_000), run(50_000), run(60_000)]).toEqual([0, 0, 1]);
      // What is refused changes nothing.
      expect([allow((64 << 10) + 1), allow(-1), run(50_000), run(50_001)]).toEqual([1, 1, 0, 1]);
      expect(emulator.get("hipFuncGetAttribute", 8, kernel)).toBe(50_000n);
      expect([allow(64 << 10), run(64 << 10)]).toEqual([0, 0]);
      expect(emulator.status("hipFuncSetAttribute", kernel, 9, 0)).toBe(1);
      expect(emulator.status("hipFuncSetAttribute", 0x1234n, 8, 0)).toBe(400);
    });

    it("counts what the source of a module's only kernel has of it already", () => {
      const source = `${PORTABLE}
        struct OneArguments { u32* out; };
        KERNEL(one, OneArguments, 32) {
          SHARED u32 own[4096];
          DYNAMIC_SHARED(shared);
          own[thread_index()] = 1;
          barrier();
          a.out[thread_index()] = own[31 - thread_index()] + shared[0];
        }`;
      const alone = new TestKernels(emulator, compile(emulator, source, 32).image);
      const kernel = emulator.get("hipModuleGetFunction", alone.module, "one");
      const staticBytes = Number(emulator.get("hipFuncGetAttribute", 1, kernel));
      expect(staticBytes).toBeGreaterThanOrEqual(16 << 10);
      expect(staticBytes).toBeLessThan(17 << 10);
      const out = emulator.get("hipMalloc", 128);
      const left = (64 << 10) - staticBytes;
      const run = (sharedBytes: number): number => alone.run("one", [out], { sharedBytes, threads: 32 });
      expect([run(left), run(left + 1)]).toEqual([0, 1]);
      expect([left, left + 1].map((sizeBytes) => emulator.status("hipFuncSetAttribute", kernel, 8, sizeBytes))).toEqual(
        [0, 1],
      );
    });

    it("reports a stack that is full and one thread's deep calls that are not", () => {
      const out = emulator.get("hipMalloc", 128);
      expect(kernels.run("recursion", [out, 100n, out])).toBe(0);
      expect(download(emulator, out, 32)[31]).toBe((101 * 102) / 2);
      expect(kernels.run("recursion", [out, 100_000n, out])).toBe(700);
      expect(emulator.message()).toContain("its stack is full");
    });
  });

  describe("arithmetic", () => {
    emulator.reset();
    const { image } = compile(emulator, TEST_KERNELS, 32);
    const plain = compile(emulator, TEST_KERNELS, 32, ["-DEMULATED_PLAIN_HALVES"]);
    let kernels: TestKernels;

    beforeEach(() => {
      emulator.reset();
      kernels = new TestKernels(emulator, image);
    });

    const floats = (values: Uint32Array<ArrayBuffer>): Float32Array => new Float32Array(values.buffer);

    for (const [how, load] of [
      ["the processor", () => kernels],
      ["plain arithmetic", () => new TestKernels(emulator, plain.image)],
    ] as const) {
      it(`knows every half, by ${how}`, () => {
        everyHalf(load());
      });

      it(`rounds to the nearest half, ties to even, by ${how}`, () => {
        rounding(load());
      });
    }

    function everyHalf(using: TestKernels): void {
      const wide = emulator.get("hipMalloc", 4 * 65536);
      const narrow = emulator.get("hipMalloc", 2 * 65536);
      expect(using.run("halves", [wide, narrow, 65536], { grid: [256, 1, 1] })).toBe(0);
      const found = floats(download(emulator, wide, 65536));
      const back = new Uint16Array(download(emulator, narrow, 32768).buffer);
      for (let bits = 0; bits < 65536; bits++) {
        const exponent = (bits >> 10) & 31;
        const fraction = bits & 1023;
        const size =
          exponent === 31
            ? fraction === 0
              ? Infinity
              : NaN
            : exponent === 0
              ? fraction * 2 ** -24
              : (1024 + fraction) * 2 ** (exponent - 25);
        const expected = bits & 0x8000 ? -size : size;
        if (!Object.is(found[bits], expected)) expect(found[bits]).toBe(expected);
        if (!Number.isNaN(expected) && back[bits] !== bits) expect(back[bits]).toBe(bits);
      }
    }

    function rounding(using: TestKernels): void {
      const values = [
        1 + 2 ** -11,
        1 + 3 * 2 ** -11,
        65519,
        65520,
        2 ** -25,
        1.5 * 2 ** -25,
        -(2 ** -14) * (1 - 2 ** -12),
        1e-10,
      ];
      const input = upload(emulator, new Uint32Array(new Float32Array(values).buffer));
      const narrow = emulator.get("hipMalloc", 16);
      expect(using.run("to_halves", [input, narrow, 8])).toBe(0);
      expect([...new Uint16Array(download(emulator, narrow, 4).buffer)]).toEqual([
        0x3c00, 0x3c02, 0x7bff, 0x7c00, 0, 1, 0x8400, 0,
      ]);
    }

    it("computes what device/portable.h asks for", () => {
      const out = emulator.get("hipMalloc", 64);
      expect(kernels.run("arithmetic", [out, out, 0])).toBe(0);
      // 0x7f × 2, -128 × 3, -1 × 4, 1 × 5; 2.5 goes to the even neighbour; 1.00390625 lies half-way between two brain floats.
      const expected = [1000 + 254 - 384 - 4 + 5, Math.fround(2 ** 3.5), 0.25, -(2 ** -24), 2, 3, 1];
      expect([...floats(download(emulator, out, 7))]).toEqual(expected);
    });

    it("faults on a wide load that is not aligned, and on a division by zero", () => {
      const array = upload(emulator, counting(64));
      expect(kernels.run("wide_load", [array, 16n, array])).toBe(0);
      expect(kernels.run("divide", [array, 7n, array])).toBe(0);
      expect(kernels.run("wide_load", [array, 4n, array])).toBe(719);
      expect(emulator.message()).toContain("a wide load was not aligned");
      emulator.reset();
      kernels = new TestKernels(emulator, image);
      const again = upload(emulator, counting(64));
      expect(kernels.run("divide", [again, 0n, again])).toBe(719);
      expect(emulator.message()).toContain("divided by zero");
    });

    it("gives every block shared memory of its own, on several host threads", () => {
      emulator.reset({ threads: 4 });
      kernels = new TestKernels(emulator, image);
      const input = upload(emulator, counting(256));
      const out = emulator.get("hipMalloc", 4 * 256 * 400);
      expect(kernels.run("many_block_sums", [input, out], { grid: [400, 1, 1] })).toBe(0);
      expect([...download(emulator, out, 256 * 400)]).toEqual(
        Array.from({ length: 256 * 400 }, (_, index) => (256 * 257) / 2 + 256 * Math.floor(index / 256)),
      );
    });

    it("adds atomically from all blocks, on several host threads", () => {
      emulator.reset({ threads: 4 });
      kernels = new TestKernels(emulator, image);
      const counter = upload(emulator, new Uint32Array(1));
      expect(kernels.run("count", [counter, 3n, counter], { grid: [500, 2, 1] })).toBe(0);
      expect(download(emulator, counter, 1)[0]).toBe(3 * 64 * 1000);
    });
  });
});
