// A device that only delays, fails and counts, for tests of the loader and of plans.

import type {
  Backend,
  CompiledProgram,
  KvCache,
  KvCacheOptions,
  MappedLocation,
  Support,
  TensorSource,
} from "../../src/backends/contract.js";
import type { TensorDescriptor } from "../../src/tensor/descriptor.js";
import type { DeviceTensor } from "../../src/tensor/device-tensor.js";

export interface FakeTensor extends DeviceTensor {
  readonly bytes: Uint8Array;
  readonly disposed: boolean;
}

export class FakeBackend implements Backend {
  readonly description = { name: "fake", summary: "counts" };
  readonly defaultKvCacheType = "f32";
  readonly maxStepTokens = 16;
  readonly maxStepOutputs = 16;
  readonly uploads: string[] = [];
  readonly locations: (MappedLocation | undefined)[] = [];
  /** How many of the next uploads fail, and with what. */
  failures: Error[] = [];
  delayMs = 0;
  inFlight = 0;
  mostInFlight = 0;
  live = 0;

  memory(): { readonly totalBytes: number; readonly availableBytes: number } {
    return { totalBytes: 1e9, availableBytes: 1e9 };
  }

  supports(): Support {
    return true;
  }

  residentBytes({ sizeBytes }: TensorDescriptor): number {
    return sizeBytes;
  }

  async upload(source: TensorSource): Promise<FakeTensor> {
    this.uploads.push(source.descriptor.name);
    this.locations.push(source.mappedLocation());
    this.inFlight++;
    this.mostInFlight = Math.max(this.mostInFlight, this.inFlight);
    try {
      if (this.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, this.delayMs));
      const failure = this.failures.shift();
      if (failure !== undefined) throw failure;
      const bytes = new Uint8Array(source.descriptor.sizeBytes);
      await source.read(bytes, 0);
      return this.#tensor(source.descriptor, bytes);
    } finally {
      this.inFlight--;
    }
  }

  supportsKvCache(): Support {
    return true;
  }

  kvCacheBytes({ blocks, blockTokens }: KvCacheOptions): number {
    return blocks * blockTokens;
  }

  createKvCache(options: KvCacheOptions): KvCache {
    return {
      options,
      sizeBytes: this.kvCacheBytes(options),
      disposed: false,
      copyBlocks: () => {},
      copyFrom: () => {},
      [Symbol.dispose]: () => {},
    };
  }

  compile(): CompiledProgram {
    return { run: () => Promise.resolve([]), scratchBytes: () => 0, [Symbol.dispose]: () => {} };
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #tensor(descriptor: TensorDescriptor, bytes: Uint8Array): FakeTensor {
    this.live++;
    let disposed = false;
    return {
      descriptor,
      bytes,
      residentBytes: bytes.byteLength,
      get disposed() {
        return disposed;
      },
      [Symbol.dispose]: () => {
        if (!disposed) this.live--;
        disposed = true;
      },
    };
  }
}
