// A driver and a compiler that do nothing at all and keep count: for tests of what the backend asks of them, and when.

import type {
  CompileOptions,
  GpuCompiler,
  GpuDevice,
  GpuDriver,
  GpuProperties,
} from "../../src/backends/gpu/drivers/shared/driver.js";

export class SilentDriver implements GpuDriver {
  readonly kind = "cuda";
  readonly library = "none";
  readonly version = "0";
  readonly calls = new Map<string, number>();
  #next = 0x10_000n;

  devices(): readonly GpuProperties[] {
    return [
      {
        index: 0,
        name: "Silent",
        architecture: "sm_90",
        totalBytes: 16 * 2 ** 30,
        multiprocessors: 16,
        waveSize: 32,
        sharedBytes: 227 << 10,
        integrated: false,
      },
    ];
  }

  open(): GpuDevice {
    const [properties] = this.devices();
    const handle = (): bigint => (this.#next += 0x1000n);
    const answers: Record<string | symbol, unknown> = {
      kind: this.kind,
      properties,
      registersReadOnly: false,
      memory: () => ({ totalBytes: properties.totalBytes, freeBytes: properties.totalBytes }),
      allocate: (sizeBytes: number) => {
        const address = handle();
        this.#next += BigInt(sizeBytes);
        return address;
      },
      allocateHost: (sizeBytes: number) => ({ address: handle(), bytes: new Uint8Array(sizeBytes) }),
      createArguments: (sizeBytes: number) => ({ view: new DataView(new ArrayBuffer(sizeBytes)) }),
      loadModule: async () => handle(),
      isDone: () => true,
      whenDone: async () => {},
      createStream: handle,
      createEvent: handle,
      kernel: handle,
      endCapture: handle,
      [Symbol.dispose]: () => {},
    };
    const { calls } = this;
    return new Proxy({} as GpuDevice, {
      get(_target, name) {
        const answer = answers[name];
        if (answer !== undefined && typeof answer !== "function") return answer;
        return (...args: unknown[]): unknown => {
          calls.set(String(name), (calls.get(String(name)) ?? 0) + 1);
          return answer === undefined ? undefined : (answer as (...args: unknown[]) => unknown)(...args);
        };
      },
    });
  }
}

export class SilentCompiler implements GpuCompiler {
  readonly identity = "silent";
  readonly asked: CompileOptions[] = [];
  /** What compilations wait for. */
  hold: Promise<void> = Promise.resolve();

  async compile(_source: string, options: CompileOptions): Promise<Uint8Array> {
    this.asked.push(options);
    await this.hold;
    return new Uint8Array(64);
  }

  /** Files that were asked for since the first `count`. */
  files(count = 0): readonly string[] {
    return this.asked.slice(count).map(({ name }) => name);
  }
}
