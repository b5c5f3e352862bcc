// Streams, events, capture and graphs of the test double.

import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { describeEmulator } from "./build.js";
import { bytes, Emulator } from "./ffi.js";
import { compile, download, Gate, TEST_KERNELS, TestKernels, upload } from "./programs.js";

const GLOBAL = 0;
const THREAD_LOCAL = 1;
const RELAXED = 2;

describeEmulator("streams of the HIP emulator", () => {
  const emulator = new Emulator();
  const { image } = compile(emulator, TEST_KERNELS, 32);
  let kernels: TestKernels;
  let counter: bigint;
  let stream: bigint;
  let other: bigint;
  let gate: Gate;

  beforeEach(() => {
    emulator.reset();
    kernels = new TestKernels(emulator, image);
    counter = upload(emulator, new Uint32Array(1));
    stream = emulator.get("hipStreamCreateWithFlags", 1);
    other = emulator.get("hipStreamCreateWithFlags", 1);
    gate = new Gate(emulator, kernels);
  });
  afterAll(() => emulator.reset());

  const increment = (on: bigint): number => kernels.launch("increment", [counter, 1n, counter], { stream: on });
  const event = (flags = 0): bigint => emulator.get("hipEventCreateWithFlags", flags);
  const value = (): number => download(emulator, counter, 1)[0];

  it("returns before the work is done, and keeps its order", () => {
    const done = event();
    const target = emulator.get("hipMalloc", 200);
    gate.shut(stream);
    for (let index = 0; index < 50; index++) {
      expect(increment(stream)).toBe(0);
      emulator.do("hipMemcpyDtoDAsync", target + BigInt(4 * index), counter, 4, stream);
    }
    emulator.do("hipEventRecord", done, stream);
    expect(emulator.status("hipEventQuery", done)).toBe(600);
    expect(emulator.status("hipGetLastError")).toBe(0);
    gate.open();
    emulator.do("hipEventSynchronize", done);
    expect(emulator.status("hipEventQuery", done)).toBe(0);
    expect([...download(emulator, target, 50)]).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
  });

  it("lets streams run beside each other", () => {
    gate.shut(stream);
    expect(increment(stream)).toBe(0);
    expect(increment(other)).toBe(0);
    emulator.do("hipStreamSynchronize", other);
    expect(value()).toBe(1);
    gate.open();
    emulator.do("hipStreamSynchronize", stream);
    expect(value()).toBe(2);
  });

  it("makes one stream wait for another's event, and for no later one", () => {
    const [done, waited] = [event(2), event(2)];
    const target = emulator.get("hipMalloc", 4);
    const later = new Gate(emulator, kernels);
    gate.shut(stream);
    expect(increment(stream)).toBe(0);
    emulator.do("hipEventRecord", done, stream);
    emulator.do("hipStreamWaitEvent", other, done, 0);
    emulator.do("hipMemcpyDtoDAsync", target, counter, 4, other);
    emulator.do("hipEventRecord", waited, other);
    later.shut(stream);
    expect(increment(stream)).toBe(0);
    // Recorded anew behind the second gate: who waits already waits for the first record.
    emulator.do("hipEventRecord", done, stream);
    expect(emulator.status("hipEventQuery", waited)).toBe(600);
    gate.open();
    emulator.do("hipStreamSynchronize", other);
    expect(download(emulator, target, 1)[0]).toBe(1);
    expect(emulator.status("hipEventQuery", done)).toBe(600);
    later.open();
    emulator.do("hipStreamSynchronize", stream);
    expect(value()).toBe(2);
  });

  it("does not wait for an event that was never recorded", () => {
    const never = event();
    expect(emulator.status("hipEventQuery", never)).toBe(0);
    emulator.do("hipStreamWaitEvent", stream, never, 0);
    emulator.do("hipStreamSynchronize", stream);
  });

  it("measures the time between events", () => {
    const [start, end, untimed] = [event(), event(), event(2)];
    emulator.do("hipEventRecord", start, stream);
    // The stream's thread may be late.
    emulator.do("hipEventSynchronize", start);
    gate.shut(stream);
    emulator.do("hipEventRecord", end, stream);
    const out = bytes(4);
    expect(emulator.status("hipEventElapsedTime", out, start, end)).toBe(600);
    const begun = performance.now();
    while (performance.now() - begun < 5) continue;
    gate.open();
    emulator.do("hipStreamSynchronize", stream);
    emulator.do("hipEventElapsedTime", out, start, end);
    expect(new Float32Array(out.buffer)[0]).toBeGreaterThan(4);
    emulator.do("hipEventRecord", untimed, stream);
    emulator.do("hipStreamSynchronize", stream);
    expect(emulator.status("hipEventElapsedTime", out, start, untimed)).toBe(400);
  });

  it("refuses handles that are gone or of another kind", () => {
    const gone = event();
    emulator.do("hipEventDestroy", gone);
    expect(emulator.status("hipEventDestroy", gone)).toBe(400);
    expect(emulator.status("hipEventRecord", gone, stream)).toBe(400);
    expect(emulator.status("hipEventRecord", stream, stream)).toBe(400);
    emulator.do("hipStreamDestroy", other);
    expect(increment(other)).toBe(400);
    emulator.do("hipModuleUnload", kernels.module);
    expect(emulator.status("hipModuleGetFunction", bytes(8), kernels.module, "count")).toBe(400);
    expect(emulator.count("modules") + emulator.count("events")).toBe(0);
    expect(emulator.count("streams")).toBe(1);
  });

  describe("graphs", () => {
    const begin = (on: bigint, mode = THREAD_LOCAL): void => emulator.do("hipStreamBeginCapture", on, mode);
    const finish = (on: bigint): bigint => {
      const out = bytes(8);
      emulator.do("hipStreamEndCapture", on, out);
      const recording = new DataView(out.buffer).getBigUint64(0, true);
      const graph = emulator.get("hipGraphInstantiate", recording, null, null, 0);
      emulator.do("hipGraphDestroy", recording);
      return graph;
    };
    const ends = (on: bigint): number => emulator.status("hipStreamEndCapture", on, bytes(8));
    const state = (on: bigint): number => {
      const out = bytes(8);
      emulator.do("hipStreamIsCapturing", on, out);
      return out[0];
    };

    it("runs nothing while it captures, and everything at each replay", () => {
      const target = emulator.get("hipMalloc", 12);
      emulator.do("hipMemsetD8Async", target, 1, 12, 0n);
      begin(stream);
      expect(state(stream)).toBe(1);
      expect(increment(stream)).toBe(0);
      emulator.do("hipMemcpyDtoDAsync", target, counter, 4, stream);
      emulator.do("hipMemsetD8Async", target + 4n, 0, 4, stream);
      expect(increment(stream)).toBe(0);
      emulator.do("hipMemcpyDtoDAsync", target + 8n, counter, 4, stream);
      expect(value()).toBe(0);
      const graph = finish(stream);
      expect(state(stream)).toBe(0);
      expect(value()).toBe(0);
      for (let replay = 1; replay <= 3; replay++) {
        emulator.do("hipGraphLaunch", graph, stream);
        emulator.do("hipStreamSynchronize", stream);
        expect([...download(emulator, target, 3)]).toEqual([2 * replay - 1, 0, 2 * replay]);
      }
      emulator.do("hipGraphExecDestroy", graph);
      expect(emulator.status("hipGraphLaunch", graph, stream)).toBe(1);
      expect(emulator.count("graphs")).toBe(0);
    });

    it("takes arguments and addresses at capture, contents at replay", () => {
      const source = emulator.get("hipHostMalloc", 4, 0);
      const array = upload(emulator, new Uint32Array([10, 20]));
      begin(stream);
      expect(kernels.launch("read_at", [array, 1n, counter], { stream })).toBe(0);
      const graph = finish(stream);
      emulator.do("hipMemsetD8Async", array, 3, 8, stream);
      emulator.do("hipGraphLaunch", graph, stream);
      emulator.do("hipStreamSynchronize", stream);
      expect(value()).toBe(0x03030303);
      emulator.do("hipHostFree", source);
    });

    it("captures other streams that are forked and joined by events", () => {
      const [forked, joined] = [event(2), event(2)];
      begin(stream);
      expect(increment(stream)).toBe(0);
      emulator.do("hipEventRecord", forked, stream);
      emulator.do("hipStreamWaitEvent", other, forked, 0);
      expect(state(other)).toBe(1);
      expect(increment(other)).toBe(0);
      emulator.do("hipEventRecord", joined, other);
      emulator.do("hipStreamWaitEvent", stream, joined, 0);
      expect(increment(stream)).toBe(0);
      const graph = finish(stream);
      expect(state(other)).toBe(0);
      emulator.do("hipGraphLaunch", graph, stream);
      emulator.do("hipStreamSynchronize", stream);
      expect(value()).toBe(3);
    });

    it("refuses an end while a forked stream is not joined", () => {
      const forked = event(2);
      begin(stream);
      expect(increment(stream)).toBe(0);
      emulator.do("hipEventRecord", forked, stream);
      emulator.do("hipStreamWaitEvent", other, forked, 0);
      expect(increment(other)).toBe(0);
      expect(ends(stream)).toBe(904);
      expect(increment(other)).toBe(0);
      emulator.do("hipStreamSynchronize", other);
      expect(value()).toBe(1);
    });

    it.each([
      ["waits for its stream", () => emulator.status("hipStreamSynchronize", stream), 900],
      ["waits for the device", () => emulator.status("hipDeviceSynchronize"), 900],
      ["allocates", () => emulator.status("hipMalloc", bytes(8), 16), 900],
      ["frees", () => emulator.status("hipFree", counter), 900],
      [
        "copies from memory that is not pinned",
        () => emulator.status("hipMemcpyHtoDAsync", counter, bytes(4), 4, stream),
        900,
      ],
    ])("loses a capture that %s", (_, call, status) => {
      begin(stream);
      expect(increment(stream)).toBe(0);
      expect(call()).toBe(status);
      expect(state(stream)).toBe(2);
      expect(increment(stream)).toBe(901);
      expect(ends(stream)).toBe(901);
      expect(increment(stream)).toBe(0);
      emulator.do("hipStreamSynchronize", stream);
      expect(value()).toBe(1);
    });

    it("loses a capture that depends on what is not captured", () => {
      const outside = event(2);
      emulator.do("hipEventRecord", outside, other);
      begin(stream);
      expect(emulator.status("hipStreamWaitEvent", stream, outside, 0)).toBe(905);
      expect(ends(stream)).toBe(901);
    });

    it("knows events that were captured", () => {
      const captured = event(2);
      begin(stream);
      emulator.do("hipEventRecord", captured, stream);
      expect(emulator.status("hipEventQuery", captured)).toBe(907);
      expect(ends(stream)).toBe(901);
    });

    it("lets a relaxed capture allocate, and a global one not", () => {
      begin(stream, RELAXED);
      emulator.do("hipFree", emulator.get("hipMalloc", 16));
      finish(stream);
      begin(stream, GLOBAL);
      expect(emulator.status("hipMalloc", bytes(8), 16)).toBe(900);
      expect(ends(stream)).toBe(901);
    });

    it("refuses an end without a beginning, a second beginning, and the device's own stream", () => {
      expect(ends(stream)).toBe(401);
      begin(stream);
      expect(emulator.status("hipStreamBeginCapture", stream, THREAD_LOCAL)).toBe(401);
      finish(stream);
      expect(emulator.status("hipStreamBeginCapture", 0n, THREAD_LOCAL)).toBe(900);
    });

    it("faults on a replay whose memory or module is gone", () => {
      begin(stream);
      expect(increment(stream)).toBe(0);
      const graph = finish(stream);
      const spare = upload(emulator, new Uint32Array(1));
      begin(stream);
      emulator.do("hipMemcpyDtoDAsync", counter, spare, 4, stream);
      const copy = finish(stream);
      emulator.do("hipFree", spare);
      emulator.do("hipGraphLaunch", copy, stream);
      expect(emulator.status("hipStreamSynchronize", stream)).toBe(700);
      expect(emulator.message()).toMatch(/^a copy read from .* into a freed device allocation of 4 bytes/);

      emulator.reset();
      kernels = new TestKernels(emulator, image);
      counter = upload(emulator, new Uint32Array(1));
      stream = emulator.get("hipStreamCreateWithFlags", 1);
      expect(emulator.status("hipGraphLaunch", graph, stream)).toBe(1);
      begin(stream);
      expect(increment(stream)).toBe(0);
      const orphan = finish(stream);
      emulator.do("hipModuleUnload", kernels.module);
      emulator.do("hipGraphLaunch", orphan, stream);
      expect(emulator.status("hipStreamSynchronize", stream)).toBe(700);
      expect(emulator.message()).toContain("kernel increment was launched after its module had been unloaded");
    });
  });
});
