// What HIP and CUDA have in common, as this project uses it: the whole interface to the GPU. Everything above it
// (buffers, loading, programs, graphs) is written once. Handles are branded, because to the libraries they are plain
// numbers and a wrong one crashes the process. Calls return at once unless they return a promise; failures are
// GpuErrors.

declare const brand: unique symbol;
type Handle<Kind extends string> = bigint & { readonly [brand]: Kind };

/** Address of device memory, or of a place inside an allocation. */
export type DeviceAddress = Handle<"device address">;
/** Address of pinned or registered host memory. */
export type HostAddress = Handle<"host address">;
/** A stream: its copies and launches run in order. */
export type StreamHandle = Handle<"stream">;
/** A point in a stream that the host or another stream can wait for. */
export type EventHandle = Handle<"event">;
/** Compiled code that is loaded on a device. */
export type ModuleHandle = Handle<"module">;
/** A kernel of a loaded module. */
export type KernelHandle = Handle<"kernel">;
/** A captured graph that is ready to be launched. */
export type GraphHandle = Handle<"graph">;

/** The drivers that the GPU backend runs on: AMD's HIP runtime, NVIDIA's CUDA driver. */
export type DriverKind = "hip" | "cuda";

/** A device's properties, known before it is opened. */
export interface GpuProperties {
  /** The driver's number for the device, as `--device` takes it. */
  readonly index: number;
  readonly name: string;
  /** The compilation target: `gfx1100`, `sm_90`. */
  readonly architecture: string;
  readonly totalBytes: number;
  readonly multiprocessors: number;
  readonly waveSize: 32 | 64;
  /** Maximum dynamic shared memory of a block. */
  readonly sharedBytes: number;
  /** Whether the GPU shares the host's memory. */
  readonly integrated: boolean;
}

/** Page-locked host memory, which the device copies from and to at full speed. */
export interface PinnedMemory {
  readonly address: HostAddress;
  /** A view of all of it, invalid once it is freed. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Memory for a kernel's argument at a fixed address. Rewritten in place; a launch copies it. */
export interface ArgumentBlock {
  readonly view: DataView;
}

/** Grid, threads and shared memory of one launch. */
export interface LaunchShape {
  /** Blocks along x, y and z. */
  readonly grid: readonly [number, number, number];
  readonly threads: number;
  readonly sharedBytes: number;
  /** May start while its predecessor drains; the kernel itself waits for it (`dependency_wait`). */
  readonly dependent: boolean;
}

/** Options of `GpuDevice.createEvent`. */
export interface EventOptions {
  /** Records timestamps for `elapsedMs`, at some cost. */
  readonly timed?: boolean;
  /**
   * How a thread waits for the event: sleeping, the default, or spinning, which notices the end some tens of
   * microseconds earlier and occupies a processor core until then.
   */
  readonly wait?: "block" | "spin";
}

/** A driver that has started. */
export interface GpuDriver {
  readonly kind: DriverKind;
  /** The library in use, by the name under which it was found. */
  readonly library: string;
  /** Human-readable version. */
  readonly version: string;
  devices(): readonly GpuProperties[];
  /**
   * Does the slow part of opening a device on another thread. The device may be opened meanwhile: its properties are
   * known, and other calls wait.
   */
  prepare?(index: number): Promise<void>;
  open(index: number): GpuDevice;
}

/** One device, made current for this thread. Disposing it frees everything that is left, in order. */
export interface GpuDevice extends Disposable {
  readonly kind: DriverKind;
  readonly properties: GpuProperties;

  /** Resolves when calls no longer block on a device that is still being opened; never rejects. */
  whenReady?(): Promise<void>;
  memory(): { readonly totalBytes: number; readonly freeBytes: number };
  allocate(sizeBytes: number): DeviceAddress;
  free(address: DeviceAddress): void;
  allocateHost(sizeBytes: number): PinnedMemory;
  freeHost(memory: PinnedMemory): void;
  /** Whether mapped file pages can be copied without a staging buffer: `registerHost` works on read-only memory. */
  readonly registersReadOnly: boolean;
  /** Registers pages of a mapping with the device; address and size are multiples of the page size. */
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
  /** Waits on a pool thread, never on this one; spins only for events created with `wait: "spin"`. */
  whenDone(event: EventHandle): Promise<void>;
  elapsedMs(start: EventHandle, end: EventHandle): number;
  /** Blocks this thread until the device is idle: for cleaning up. */
  synchronize(): void;

  /** Loads on another thread if the driver can: a module takes milliseconds, and there are dozens. */
  loadModule(image: Uint8Array): Promise<ModuleHandle>;
  unloadModule(module: ModuleHandle): void;
  kernel(module: ModuleHandle, name: string): KernelHandle;
  /** Call once for a kernel that uses more dynamic shared memory than every device allows by default. */
  allowSharedBytes(kernel: KernelHandle, sizeBytes: number): void;
  createArguments(sizeBytes: number): ArgumentBlock;
  launch(kernel: KernelHandle, shape: LaunchShape, argument: ArgumentBlock, stream: StreamHandle): void;

  /** Records what is queued on the stream from here on, instead of running it. */
  beginCapture(stream: StreamHandle): void;
  /** Ends the capture and instantiates the graph. A capture that failed is discarded, and the failure thrown. */
  endCapture(stream: StreamHandle): GraphHandle;
  /** Cancels a capture. */
  abandonCapture(stream: StreamHandle): void;
  launchGraph(graph: GraphHandle, stream: StreamHandle): void;
  destroyGraph(graph: GraphHandle): void;
}

/** Compiles kernel source for one architecture, in a child process because some compilers crash on bad input. */
export interface GpuCompiler {
  /** Name and version: part of the key under which compiled code is cached on disk. */
  readonly identity: string;
  /** Human-readable: name and version. */
  readonly release?: string;
  compile(source: string, options: CompileOptions): Promise<Uint8Array>;
}

/** Target and defines of one compilation. */
export interface CompileOptions {
  /** The source's name in messages. */
  readonly name: string;
  readonly architecture: string;
  readonly waveSize: 32 | 64;
  readonly defines: Readonly<Record<string, string | number>>;
  /** Cancels the compilation. */
  readonly signal?: AbortSignal;
}
