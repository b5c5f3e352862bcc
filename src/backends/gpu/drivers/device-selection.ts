// Chooses a driver's device: the one requested by number or by part of its name, otherwise a discrete card before an
// integrated GPU, and the one with the most memory among those. Reports the choice and its reason.

import type { DriverKind, GpuProperties } from "./shared/driver.js";
import { gpuError } from "./shared/gpu-error.js";

interface DeviceChoice {
  readonly properties: GpuProperties;
  /** Human-readable: `device 1 of 2, the one with the most memory`. */
  readonly because: string;
}

/**
 * Chooses the device that `wanted` names by number or name, or the best one. Throws `GPU_DEVICE_NOT_FOUND` if none
 * matches.
 */
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
    return { properties: best, because: `${place}, a discrete card with its own memory` };
  if (second.totalBytes < best.totalBytes)
    return { properties: best, because: `${place}, the one with the most memory` };
  return { properties: best, because: `${place}, the first of those with the most memory` };
}

function byNumber(kind: DriverKind, devices: readonly GpuProperties[], wanted: number): DeviceChoice {
  const properties = devices.find(({ index }) => index === wanted);
  if (properties === undefined) throw notFound(kind, `there is no device ${wanted}`, devices);
  return { properties, because: `device ${wanted}, as requested` };
}

function byName(kind: DriverKind, devices: readonly GpuProperties[], wanted: string): DeviceChoice {
  const part = wanted.trim().toLowerCase();
  const found = part === "" ? [] : devices.filter(({ name }) => name.toLowerCase().includes(part));
  // An exact name wins over longer names that contain it.
  const exact = found.filter(({ name }) => name.toLowerCase() === part);
  const [properties, ...others] = exact.length > 0 ? exact : found;
  if (properties === undefined) throw notFound(kind, `no device is called "${wanted}"`, devices);
  if (others.length > 0)
    throw notFound(kind, `more than one device is called "${wanted}"`, devices, "`device` also accepts the number");
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
