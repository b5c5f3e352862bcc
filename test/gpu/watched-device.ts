// A driver whose devices are watched: calls are counted by name, and some of what they do can be changed.

import type { GpuDevice, GpuDriver } from "../../src/backends/gpu/drivers/shared/driver.js";

export interface WatchedDriver extends GpuDriver {
  readonly calls: Map<string, number>;
}

type Changes = Partial<Record<keyof GpuDevice, unknown>>;

/** `changes` stand in for the devices' own members. */
export function watchDriver(
  driver: GpuDriver,
  changes: Changes | ((device: GpuDevice) => Changes) = {},
): WatchedDriver {
  const calls = new Map<string, number>();
  return {
    calls,
    kind: driver.kind,
    library: driver.library,
    version: driver.version,
    devices: () => driver.devices(),
    open: (index) => {
      const device = driver.open(index);
      return watchDevice(device, calls, typeof changes === "function" ? changes(device) : changes);
    },
  };
}

function watchDevice(device: GpuDevice, calls: Map<string, number>, changes: Changes): GpuDevice {
  return new Proxy(device, {
    get(target, name) {
      if (Object.hasOwn(changes, name)) return changes[name as keyof GpuDevice];
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...args: unknown[]): unknown => {
        calls.set(String(name), (calls.get(String(name)) ?? 0) + 1);
        return Reflect.apply(member, target, args);
      };
    },
  });
}
