// Pages of mapped files that the device copies from where they are. Registering takes as long as copying, so it happens
// in windows, a few ahead of the copies. They are not needed after a model is loaded and are released a while later,
// one by one, because that takes time and threads too, or at once when the first tensor goes.

import type { MappedLocation } from "../../contract.js";
import { roundUp } from "./device-memory.js";
import type { GpuDevice, HostAddress } from "../drivers/shared/driver.js";

type Mapping = MappedLocation["mapping"];

const PAGE_BYTES = 4096;
/** Long enough that its fixed cost is small, short enough that the first copy starts within two milliseconds. */
const WINDOW_BYTES = 64 << 20;

/** So many that copies have pages to go on with while this thread is at something else for some milliseconds. */
const PREFETCHED_WINDOWS = 3;

/** Long enough for the first tokens to be out. */
const LINGER_MS = 1000;

interface Window {
  readonly address: HostAddress;
  /** False if the driver refused, and the bytes go another way. */
  readonly registered: Promise<boolean>;
}

/** One part of a tensor that lies within one window. */
export interface WindowPart {
  readonly address: HostAddress;
  /** Counted from the tensor's first byte. */
  readonly byteOffset: number;
  readonly sizeBytes: number;
}

export class MappedWindows {
  readonly #device: GpuDevice;
  readonly #windows = new Map<Mapping, Map<number, Window>>();
  #users = 0;
  #timer: NodeJS.Timeout | undefined;
  #lastLetGo: Promise<void> = Promise.resolve();

  constructor(device: GpuDevice) {
    this.#device = device;
  }

  /** Copies from these parts are under way until `leave` is called as often. */
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

  /** Unless copies are under way. */
  letGo(): void {
    if (this.#users > 0) return;
    clearTimeout(this.#timer);
    for (const windows of this.#windows.values())
      for (const window of windows.values()) this.#lastLetGo = this.#lastLetGo.then(() => this.#unregister(window));
    this.#windows.clear();
  }

  /** Releases windows that no copy uses, and waits for it: the device must not be closed before. */
  async ended(): Promise<void> {
    this.letGo();
    await this.#lastLetGo;
  }

  /** Begins to make the first pages from here on known. */
  open({ mapping, byteOffset }: MappedLocation): void {
    this.#open(mapping, Math.floor(byteOffset / WINDOW_BYTES));
  }

  /** The parts of a range in order, each as soon as the device knows its pages; undefined for one that it refused. */
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

  /** Those after it, too. */
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
      // A window that is released already, or that the driver does not release, does no harm.
    }
  }
}
