// A device over a driver's functions: everything that HIP and CUDA do alike, which is nearly all; the rest is in the
// adapter. Every handle is recorded in a ledger, so that disposing frees what is left, dependents first, and a handle
// that is freed twice never reaches the library.

import type {
  ArgumentBlock,
  DeviceAddress,
  DriverKind,
  EventHandle,
  EventOptions,
  GpuDevice,
  GpuProperties,
  GraphHandle,
  HostAddress,
  KernelHandle,
  LaunchShape,
  ModuleHandle,
  PinnedMemory,
  StreamHandle,
} from "./driver.js";
import { NOT_READY } from "./gpu-error.js";
import type { DeviceAdapter } from "./adapter.js";
import { ParameterBlock } from "./arguments.js";
import type { DriverCalls } from "./calls.js";
import type { CheckedCalls } from "./checked-calls.js";
import { DeviceCore } from "./core.js";
import { drain } from "./drain.js";
import { inBackground, memoryViewOf } from "./ffi.js";
import { ModuleLoads } from "./modules.js";
import { abandonRecording, endRecording } from "./recording.js";
import { registerPages, RegistrationQueue, unregisterPages } from "./registered-pages.js";

/** Flags with the same values in both drivers. */
const STREAM_NON_BLOCKING = 1;
const EVENT_BLOCKING = 1;
const EVENT_UNTIMED = 2;
const CAPTURE_THREAD_LOCAL = 1;
/** Interval at which an event is polled if no thread can wait for it. */
const LOOK_MS = 1;

/** `GpuDevice` over the functions of HIP or CUDA. */
export class NativeDevice implements GpuDevice {
  readonly kind: DriverKind;
  readonly properties: GpuProperties;
  readonly #core: DeviceCore;
  // Used by every launch: looked up once.
  readonly #calls: DriverCalls;
  readonly #checked: CheckedCalls;
  readonly #modules: ModuleLoads;
  readonly #registrations = new RegistrationQueue();
  readonly #allowedBytes = new Map<KernelHandle, number>();

  constructor(adapter: DeviceAdapter) {
    this.kind = adapter.kind;
    this.properties = adapter.properties;
    this.#core = new DeviceCore(adapter);
    this.#calls = this.#core.calls;
    this.#checked = this.#core.checked;
    this.#modules = new ModuleLoads(this.#core, () => this.whenReady());
  }

  async whenReady(): Promise<void> {
    this.#core.lifetime.assertAlive();
    await this.#core.adapter.whenReady?.();
  }

  get registersReadOnly(): boolean {
    this.#core.lifetime.assertAlive();
    return this.#core.adapter.registersReadOnly;
  }

  memory(): { readonly totalBytes: number; readonly freeBytes: number } {
    this.#core.use();
    this.#checked.check(
      "memoryInfo",
      "internal",
      this.#calls.memoryInfo(this.#core.outputs.address, this.#core.outputs.address + 8n),
    );
    const reported = { freeBytes: this.#core.outputs.size(0), totalBytes: this.#core.outputs.size(1) };
    return this.#core.adapter.memory?.(reported) ?? reported;
  }

  allocate(sizeBytes: number): DeviceAddress {
    this.#core.use();
    const code = this.#calls.allocate(this.#core.out(), checkedSize(sizeBytes));
    this.#checked.checkSize("allocate", "out of memory", code, sizeBytes);
    return this.#core.enter("buffer") as DeviceAddress;
  }

  free(address: DeviceAddress): void {
    this.#core.use();
    this.#core.ledger.take("buffer", address);
    this.#checked.givenBack("free", this.#calls.free(address));
  }

  allocateHost(sizeBytes: number): PinnedMemory {
    this.#core.use();
    const code = this.#calls.allocateHost(this.#core.out(), checkedSize(sizeBytes), 0);
    this.#checked.checkSize("allocateHost", "out of memory", code, sizeBytes);
    const address = this.#core.enter("pinned memory") as HostAddress;
    return { address, bytes: new Uint8Array(memoryViewOf(address, sizeBytes)) };
  }

  freeHost({ address }: PinnedMemory): void {
    this.#core.use();
    this.#core.ledger.take("pinned memory", address);
    this.#checked.givenBack("freeHost", this.#calls.freeHost(address));
  }

  async registerHost(address: HostAddress, sizeBytes: number): Promise<void> {
    this.#core.use();
    await this.#registrations.run(async () => {
      await this.#modules.whenIdle();
      await registerPages(this.#core, address, checkedSize(sizeBytes));
    });
  }

  async unregisterHost(address: HostAddress): Promise<void> {
    this.#core.use();
    await this.#modules.whenIdle();
    await unregisterPages(this.#core, address);
  }

  copyToDevice(target: DeviceAddress, source: HostAddress, sizeBytes: number, stream: StreamHandle): void {
    this.#core.use();
    this.#checked.checkSize(
      "copyToDevice",
      "copy",
      this.#calls.copyToDevice(target, source, sizeBytes, stream),
      sizeBytes,
    );
  }

  copyToHost(target: HostAddress, source: DeviceAddress, sizeBytes: number, stream: StreamHandle): void {
    this.#core.use();
    this.#checked.checkSize("copyToHost", "copy", this.#calls.copyToHost(target, source, sizeBytes, stream), sizeBytes);
  }

  copyOnDevice(target: DeviceAddress, source: DeviceAddress, sizeBytes: number, stream: StreamHandle): void {
    this.#core.use();
    this.#checked.checkSize(
      "copyOnDevice",
      "copy",
      this.#calls.copyOnDevice(target, source, sizeBytes, stream),
      sizeBytes,
    );
  }

  fill(target: DeviceAddress, byte: number, sizeBytes: number, stream: StreamHandle): void {
    this.#core.use();
    this.#checked.checkSize("fill", "copy", this.#calls.fill(target, byte, sizeBytes, stream), sizeBytes);
  }

  createStream(): StreamHandle {
    this.#core.use();
    this.#checked.check("createStream", "internal", this.#calls.createStream(this.#core.out(), STREAM_NON_BLOCKING));
    return this.#core.enter("stream") as StreamHandle;
  }

  destroyStream(stream: StreamHandle): void {
    this.#core.use();
    this.#core.ledger.take("stream", stream);
    this.#checked.givenBack("destroyStream", this.#calls.destroyStream(stream));
  }

  streamWait(stream: StreamHandle, event: EventHandle): void {
    this.#core.use();
    this.#checked.check("streamWait", "internal", this.#calls.streamWait(stream, event, 0));
  }

  createEvent({ timed = false, wait = "block" }: EventOptions = {}): EventHandle {
    this.#core.use();
    const flags = (wait === "block" ? EVENT_BLOCKING : 0) | (timed ? 0 : EVENT_UNTIMED);
    this.#checked.check("createEvent", "internal", this.#calls.createEvent(this.#core.out(), flags));
    return this.#core.enter("event") as EventHandle;
  }

  destroyEvent(event: EventHandle): void {
    this.#core.use();
    this.#core.ledger.take("event", event);
    const { background } = this.#core;
    if (!background.isWaitedFor(event)) this.#checked.givenBack("destroyEvent", this.#calls.destroyEvent(event));
    // A thread is waiting for it: it is destroyed when that wait ends, or with the device.
    else background.afterWaits(event, () => (this.#core.lifetime.disposed ? 0 : this.#calls.destroyEvent(event)));
  }

  record(event: EventHandle, stream: StreamHandle): void {
    this.#core.use();
    this.#checked.check("record", "internal", this.#calls.record(event, stream));
  }

  isDone(event: EventHandle): boolean {
    this.#core.use();
    const code = this.#calls.queryEvent(event);
    if (code === NOT_READY) return false;
    this.#checked.check("queryEvent", "internal", code);
    return true;
  }

  async whenDone(event: EventHandle): Promise<void> {
    if (this.isDone(event)) return;
    const number = await this.#core.background.wait(
      event,
      () => inBackground(this.#calls.waitForEvent, event),
      () => this.#lookNowAndThen(event),
    );
    this.#checked.check("waitForEvent", "internal", number);
  }

  async #lookNowAndThen(event: EventHandle): Promise<number> {
    while (!this.isDone(event)) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    return 0;
  }

  elapsedMs(start: EventHandle, end: EventHandle): number {
    this.#core.use();
    this.#checked.check("elapsed", "internal", this.#calls.elapsed(this.#core.outputs.address, start, end));
    return this.#core.outputs.view.getFloat32(0, true);
  }

  synchronize(): void {
    this.#core.use();
    this.#checked.check("synchronize", "internal", this.#calls.synchronize());
  }

  async loadModule(image: Uint8Array): Promise<ModuleHandle> {
    return await this.#modules.load(image);
  }

  unloadModule(module: ModuleHandle): void {
    this.#core.use();
    this.#core.ledger.take("module", module);
    this.#checked.givenBack("unloadModule", this.#calls.unloadModule(module));
  }

  kernel(module: ModuleHandle, name: string): KernelHandle {
    this.#core.use();
    if (!this.#core.ledger.has("module", module))
      throw new TypeError("the module was unloaded, or belongs to another device");
    const code = this.#calls.kernel(this.#core.out(), module, name);
    if (code !== 0)
      throw this.#checked.error(this.#core.adapter.bound.symbols.kernel, "kernel load", code, `for "${name}"`);
    const kernel = this.#core.outputs.pointer() as KernelHandle;
    // An unloaded module may have had a kernel with the same handle.
    this.#allowedBytes.delete(kernel);
    return kernel;
  }

  allowSharedBytes(kernel: KernelHandle, sizeBytes: number): void {
    this.#core.use();
    const { sharedBytes } = this.properties;
    if (sizeBytes > sharedBytes)
      throw new TypeError(
        `a block has at most ${sharedBytes} bytes of shared memory on this device, ${sizeBytes} were requested`,
      );
    // The last value set is the limit, and a kernel may be launched with several sizes.
    if (sizeBytes <= (this.#allowedBytes.get(kernel) ?? 0)) return;
    const code = this.#core.adapter.allowSharedBytes(kernel, sizeBytes);
    this.#allowedBytes.set(kernel, sizeBytes);
    if (code !== 0)
      throw this.#checked.error(this.#core.adapter.allowSharedSymbol, "launch", code, `for ${sizeBytes} bytes`);
  }

  createArguments(sizeBytes: number): ArgumentBlock {
    this.#core.lifetime.assertAlive();
    return new ParameterBlock(sizeBytes);
  }

  launch(kernel: KernelHandle, shape: LaunchShape, argument: ArgumentBlock, stream: StreamHandle): void {
    this.#core.use();
    const { parameters } = argument as ParameterBlock;
    const { grid, threads, sharedBytes, dependent } = shape;
    const code =
      dependent && this.#core.adapter.launchDependent !== undefined
        ? this.#core.adapter.launchDependent(kernel, shape, parameters, stream)
        : this.#calls.launch(kernel, grid[0], grid[1], grid[2], threads, 1, 1, sharedBytes, stream, parameters, null);
    if (code === 0) return;
    const asked = `for ${grid.join(" × ")} blocks of ${threads} threads with ${sharedBytes} bytes of shared memory`;
    throw this.#checked.error(this.#core.adapter.bound.symbols.launch, "launch", code, asked);
  }

  beginCapture(stream: StreamHandle): void {
    this.#core.use();
    this.#checked.check("beginCapture", "launch", this.#calls.beginCapture(stream, CAPTURE_THREAD_LOCAL));
  }

  endCapture(stream: StreamHandle): GraphHandle {
    this.#core.use();
    return endRecording(this.#core, stream);
  }

  abandonCapture(stream: StreamHandle): void {
    this.#core.use();
    abandonRecording(this.#core, stream);
  }

  launchGraph(graph: GraphHandle, stream: StreamHandle): void {
    this.#core.use();
    this.#checked.check("launchGraph", "launch", this.#calls.launchGraph(graph, stream));
  }

  destroyGraph(graph: GraphHandle): void {
    this.#core.use();
    this.#core.ledger.take("graph", graph);
    this.#checked.givenBack("destroyGraph", this.#calls.destroyGraph(graph));
  }

  [Symbol.dispose](): void {
    if (!this.#core.lifetime.end()) return;
    if (!this.#core.adapter.tryMakeCurrent() || drain(this.#core)) this.#core.adapter.release();
  }
}

function checkedSize(sizeBytes: number): number {
  if (Number.isSafeInteger(sizeBytes) && sizeBytes > 0) return sizeBytes;
  throw new RangeError(`expected a size of at least one byte, found ${sizeBytes}`);
}
