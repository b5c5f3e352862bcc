// What the programs of this process do on one device: whether a step of any of them runs, and which of them tunes. Models
// have backends of their own, so that this is known for the device and not for a backend.

import type { GpuDevice } from "../drivers/shared/driver.js";

/** The steps and the tuner of one device. */
export class DeviceActivity {
  #running = 0;
  #lastMs = performance.now();
  /** Whether a tuner measures: a second one would disturb it. */
  isTuned = false;

  stepBegan(): void {
    this.#running++;
  }

  stepEnded(): void {
    this.#running--;
    this.#lastMs = performance.now();
  }

  /** Milliseconds since the last step ended; 0 while one runs. */
  get idleMs(): number {
    return this.#running > 0 ? 0 : performance.now() - this.#lastMs;
  }
}

const activities = new Map<string, DeviceActivity>();

/** The activity of a device in this process. */
export function activityOf({ kind, properties: { index } }: Pick<GpuDevice, "kind" | "properties">): DeviceActivity {
  const key = `${kind} ${index}`;
  const activity = activities.get(key) ?? new DeviceActivity();
  activities.set(key, activity);
  return activity;
}
