// Which of a driver's devices is used: the one that was asked for by number or by part of its name, else a card of its
// own before a graphics unit that shares the host's memory, and of those the one with the most memory. Says which and
// why.

import type { DriverKind, GpuProperties } from "./shared/driver.js";
import { gpuError } from "./shared/gpu-error.js";

interface DeviceChoice {
  readonly properties: GpuProperties;
  /** Human-readable: `device 1 of 2, the one with the most memory`. */
  readonly because: string;
}

export function chooseDevice(
  kind: DriverKind,
  devices: readonly GpuProperties[],
  wanted: string | number | undefined,
): DeviceChoice {
  if (devices.length === 0) throw notFound(kind, "there is no device", devices);
  if (wanted === undefined) return chooseBest(devices);
  return typeof wanted === "number" ? byNumber(kind, devices, wanted) : byName(kind, devices, wanted);
}

function chooseBest(devices: readonly GpuProperties[]): DeviceChoice {
  const [best, second] = devices.toSorted(
    (left, right) =>
      Number(left.integrated) - Number(right.integrated) ||
      right.totalBytes - left.totalBytes ||
      left.index - right.index,
  );
  const place = `device ${best.index} of ${devices.length}`;
  if (second === undefined) return { properties: best, because: "the only device" };
  if (second.integrated && !best.integrated)
    return { properties: best, because: `${place}, a card with memory of its own` };
  if (second.totalBytes < best.totalBytes)
    return { properties: best, because: `${place}, the one with the most memory` };
  return { properties: best, because: `${place}, the first of those with the most memory` };
}

function byNumber(kind: DriverKind, devices: readonly GpuProperties[], wanted: number): DeviceChoice {
  const properties = devices.find(({ index }) => index === wanted);
  if (properties === undefined) throw notFound(kind, `there is no device ${wanted}`, devices);
  return { properties, because: `device ${wanted}, as asked for` };
}

function byName(kind: DriverKind, devices: readonly GpuProperties[], wanted: string): DeviceChoice {
  const part = wanted.trim().toLowerCase();
  const found = part === "" ? [] : devices.filter(({ name }) => name.toLowerCase().includes(part));
  // A whole name goes before longer ones that contain it.
  const exact = found.filter(({ name }) => name.toLowerCase() === part);
  const [properties, ...others] = exact.length > 0 ? exact : found;
  if (properties === undefined) throw notFound(kind, `no device is called "${wanted}"`, devices);
  if (others.length > 0)
    throw notFound(kind, `more than one device is called "${wanted}"`, devices, "`device` takes the number, too");
  return { properties, because: `device ${properties.index}, by its name` };
}

function notFound(kind: DriverKind, what: string, devices: readonly GpuProperties[], remedy?: string): Error {
  const list = devices.map(({ index, name }) => `${index} ${name}`);
  const found = list.length === 0 ? "" : ` (there are: ${list.join(", ")})`;
  return gpuError({
    kind: "device not found",
    place: kind,
    what: `${what}${found}`,
    ...(remedy === undefined ? {} : { remedy }),
    details: { devices: list },
  });
}
