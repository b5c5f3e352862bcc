// What HIP and CUDA have in common, as this project uses it: the whole interface to the GPU. Everything above it
// (buffers, loading, programs, graphs) is written once. Handles are branded, because to the libraries they are bare
// numbers and a wrong one ends the process. Calls return at once unless they give a promise; failures are GpuErrors.

declare const brand: unique symbol;
type Handle<Kind extends string> = bigint & { readonly [brand]: Kind };

export type DeviceAddress = Handle<"device address">;
export type HostAddress = Handle<"host address">;
export type StreamHandle = Handle<"stream">;
export type EventHandle = Handle<"event">;
export type ModuleHandle = Handle<"module">;
export type KernelHandle = Handle<"kernel">;
export type GraphHandle = Handle<"graph">;

export type DriverKind = "hip" | "cuda";

export interface GpuProperties {
  /** As the driver counts, and as `--device` takes it. */
  readonly index: number;
  readonly name: string;
  /** What kernels are compiled for: `gfx1100`, `sm_90`. */
  readonly architecture: string;
  readonly totalBytes: number;
  readonly multiprocessors: number;
  readonly waveSize: 32 | 64;
  /** The most dynamic shared memory one block may ask for. */
  readonly sharedBytes: number;
  /** Shares the host's memory. */
  readonly integrated: boolean;
}

/** Host memory that the device copies from and to at full speed. */
export interface PinnedMemory {
  readonly address: HostAddress;
  /** A view of all of it, gone once it is freed. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** A kernel's one argument, at a place that does not move. Rewritten in place; a launch copies it. */
export interface ArgumentBlock {
  readonly view: DataView;
}

export interface LaunchShape {
  /** Blocks along x, y and z. */
  readonly grid: readonly [number, number, number];
  readonly threads: number;
  readonly sharedBytes: number;
  /** May start while the launch before it drains; the kernel waits for it itself (`dependency_wait`). */
  readonly dependent: boolean;
}

export interface EventOptions {
  /** Tells the time, at some cost. */
  readonly timed?: boolean;
  /**
   * How a thread waits for it: asleep, which is the rule, or looking at it all the time, which sees its end some tens of
   * microseconds earlier and takes a processor core until then.
   */
  readonly wait?: "block" | "spin";
}

export interface GpuDriver {
  readonly kind: DriverKind;
  /** The library that answers, by the name it was found under. */
  readonly library: string;
  /** Its version, for people. */
  readonly version: string;
  devices(): readonly GpuProperties[];
  /**
   * Does on another thread what takes long about opening a device, for those who have something else to do meanwhile. It
   * may be opened at once: its properties are known, and what else is asked of it waits.
   */
  prepare?(index: number): Promise<void>;
  open(index: number): GpuDevice;
}

/** One device, made current for this thread. Disposing it frees everything that is left, in order. */
export interface GpuDevice extends Disposable {
  readonly kind: DriverKind;
  readonly properties: GpuProperties;

  /** When calls do not block any more over a device that is still being opened; never rejects. */
  whenReady?(): Promise<void>;
  memory(): { readonly totalBytes: number; readonly freeBytes: number };
  allocate(sizeBytes: number): DeviceAddress;
  free(address: DeviceAddress): void;
  allocateHost(sizeBytes: number): PinnedMemory;
  freeHost(memory: PinnedMemory): void;
  /** Whether mapped file pages can be copied from where they are: `registerHost` works on read-only memory. */
  readonly registersReadOnly: boolean;
  /** Makes pages of a mapping known to the device; address and size are multiples of the page size. */
  registerHost(address: HostAddress, sizeBytes: number): Promise<void>;
  unregisterHost(address: HostAddress): Promise<void>;

  copyToDevice(target: DeviceAddress, source: HostAddress, sizeBytes: number, stream: StreamHandle): void;
  copyToHost(target: HostAddress, source: DeviceAddress, sizeBytes: number, stream: StreamHandle): void;
  copyOnDevice(target: DeviceAddress, source: DeviceAddress, sizeBytes: number, stream: StreamHandle): void;
  fill(target: DeviceAddress, byte: number, sizeBytes: number, stream: StreamHandle): void;

  createStream(): StreamHandle;
  destroyStream(stream: StreamHandle): void;
  /** Later work on `stream` waits for the event; the host does not. */
  streamWait(stream: StreamHandle, event: EventHandle): void;
  createEvent(options?: EventOptions): EventHandle;
  destroyEvent(event: EventHandle): void;
  record(event: EventHandle, stream: StreamHandle): void;
  isDone(event: EventHandle): boolean;
  /** Blocks a helper thread, never this one; it spins for events that were made for that only. */
  whenDone(event: EventHandle): Promise<void>;
  elapsedMs(start: EventHandle, end: EventHandle): number;
  /** Blocks this thread: for cleaning up. */
  synchronize(): void;

  /** On another thread where the driver can: it takes milliseconds, and there are dozens. */
  loadModule(image: Uint8Array): Promise<ModuleHandle>;
  unloadModule(module: ModuleHandle): void;
  kernel(module: ModuleHandle, name: string): KernelHandle;
  /** Once for a kernel that asks for more dynamic shared memory than every device gives. */
  allowSharedBytes(kernel: KernelHandle, sizeBytes: number): void;
  createArguments(sizeBytes: number): ArgumentBlock;
  launch(kernel: KernelHandle, shape: LaunchShape, argument: ArgumentBlock, stream: StreamHandle): void;

  /** What is queued on the stream from here on is recorded instead of run. */
  beginCapture(stream: StreamHandle): void;
  /** Ends the recording and makes it ready to run. A recording that failed is thrown away and reported. */
  endCapture(stream: StreamHandle): GraphHandle;
  /** Cancels a recording. */
  abandonCapture(stream: StreamHandle): void;
  launchGraph(graph: GraphHandle, stream: StreamHandle): void;
  destroyGraph(graph: GraphHandle): void;
}

/** Source to code for one architecture. Runs in a child process: some compilers end theirs on bad input. */
export interface GpuCompiler {
  /** Name and version: part of the key under which results are kept on disk. */
  readonly identity: string;
  compile(source: string, options: CompileOptions): Promise<Uint8Array>;
}

export interface CompileOptions {
  /** For messages. */
  readonly name: string;
  readonly architecture: string;
  readonly waveSize: 32 | 64;
  readonly defines: Readonly<Record<string, string | number>>;
  /** Cancels the compilation. */
  readonly signal?: AbortSignal;
}
