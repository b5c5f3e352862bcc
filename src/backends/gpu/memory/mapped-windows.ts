// Pages of mapped files that the device copies from directly. Registering pages takes as long as copying them, so it
// happens in windows, a few ahead of the copies. Windows are not needed after a model is loaded and are released a
// while later, one by one because that takes time and threads too, or at once when the first tensor is freed.

import type { MappedLocation } from "../../contract.js";
import { roundUp } from "./device-memory.js";
import type { GpuDevice, HostAddress } from "../drivers/shared/driver.js";

type Mapping = MappedLocation["mapping"];

const PAGE_BYTES = 4096;
/** Large enough that the fixed cost is small, small enough that the first copy starts within two milliseconds. */
const WINDOW_BYTES = 64 << 20;

/** Enough for copies to continue while this thread is busy for some milliseconds. */
const PREFETCHED_WINDOWS = 3;

/** Long enough for the first tokens to be generated. */
const LINGER_MS = 1000;

interface Window {
  readonly address: HostAddress;
  /** False if the driver refused: the bytes are then read into pinned memory. */
  readonly registered: Promise<boolean>;
}

/** The part of a tensor that is within one window. */
export interface WindowPart {
  readonly address: HostAddress;
  /** Offset from the tensor's first byte. */
  readonly byteOffset: number;
  readonly sizeBytes: number;
}

/** Registers windows of mapped files with the device ahead of copies, and releases them later. */
export class MappedWindows {
  readonly #device: GpuDevice;
  readonly #windows = new Map<Mapping, Map<number, Window>>();
  #users = 0;
  #timer: NodeJS.Timeout | undefined;
  #lastLetGo: Promise<void> = Promise.resolve();

  constructor(device: GpuDevice) {
    this.#device = device;
  }

  /** Marks copies from these windows as running until `leave` is called as often. */
  enter(): void {
    this.#users++;
    clearTimeout(this.#timer);
  }

  leave(): void {
    if (--this.#users > 0) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.letGo(), LINGER_MS);
    this.#timer.unref();
  }

  /** Releases the windows, unless copies are running. */
  letGo(): void {
    if (this.#users > 0) return;
    clearTimeout(this.#timer);
    for (const windows of this.#windows.values())
      for (const window of windows.values()) this.#lastLetGo = this.#lastLetGo.then(() => this.#unregister(window));
    this.#windows.clear();
  }

  /** Releases windows that no copy uses, and waits for that: the device must not be closed earlier. */
  async ended(): Promise<void> {
    this.letGo();
    await this.#lastLetGo;
  }

  /** Starts to register the first pages from this location on. */
  open({ mapping, byteOffset }: MappedLocation): void {
    this.#open(mapping, Math.floor(byteOffset / WINDOW_BYTES));
  }

  /**
   * The parts of a range in order, each as soon as its pages are registered; undefined for one that the driver refused.
   */
  async *parts(
    { mapping, byteOffset }: MappedLocation,
    sizeBytes: number,
  ): AsyncGenerator<WindowPart | undefined, void, undefined> {
    for (let done = 0; done < sizeBytes;) {
      const start = byteOffset + done;
      const index = Math.floor(start / WINDOW_BYTES);
      const length = Math.min(sizeBytes - done, (index + 1) * WINDOW_BYTES - start);
      const known = await this.#open(mapping, index).registered;
      yield known
        ? { address: (mapping.address + BigInt(start)) as HostAddress, byteOffset: done, sizeBytes: length }
        : undefined;
      done += length;
    }
  }

  /** Also opens the windows after it. */
  #open(mapping: Mapping, index: number): Window {
    const window = this.#window(mapping, index);
    for (let next = index + 1; next <= index + PREFETCHED_WINDOWS && next * WINDOW_BYTES < mapping.sizeBytes; next++)
      this.#window(mapping, next);
    return window;
  }

  #window(mapping: Mapping, index: number): Window {
    const windows = this.#windows.get(mapping) ?? new Map<number, Window>();
    this.#windows.set(mapping, windows);
    const known = windows.get(index);
    if (known !== undefined) return known;
    const start = index * WINDOW_BYTES;
    const address = (mapping.address + BigInt(start)) as HostAddress;
    const sizeBytes = roundUp(Math.min(WINDOW_BYTES, mapping.sizeBytes - start), PAGE_BYTES);
    const registered = this.#device.registerHost(address, sizeBytes).then(
      () => true,
      () => false,
    );
    const window = { address, registered };
    windows.set(index, window);
    return window;
  }

  async #unregister({ address, registered }: Window): Promise<void> {
    try {
      if (await registered) await this.#device.unregisterHost(address);
    } catch {
      // A window that was already released, or that the driver does not release, is harmless.
    }
  }
}
