// What the checks of all programs on one device share: the record of its modules, and how the device is named in messages.

import type { Backend } from "../../contract.js";
import { Lock } from "../drivers/shared/lock.js";
import type { DeviceRecord } from "../kernels/device-record.js";
import type { KernelChoices } from "../lowering/kernel-choices.js";
import type { GpuRuntime } from "../memory/runtime.js";
import type { CheckedDevice } from "./kernel-check.js";
import { ModuleTrust } from "./module-trust.js";

/** What the check of kernels needs besides the device. */
export interface KernelCheckOptions {
  /** Opens the backend whose results are right. */
  openOracle(): Promise<Backend>;
  /** Of the modules that have passed or failed. */
  readonly record: DeviceRecord;
  /** Card, driver and compiler, human-readable. */
  readonly identity: string;
}

/** The device as its checks see it; undefined if kernels are not checked. */
export function checkedDevice(
  options: KernelCheckOptions | undefined,
  choices: KernelChoices,
  runtime: GpuRuntime,
): CheckedDevice | undefined {
  if (options === undefined) return undefined;
  return {
    trust: new ModuleTrust(options.record, choices),
    choices,
    place: runtime.place,
    identity: options.identity,
    lock: new Lock(),
    openOracle: options.openOracle,
    report: (notice) => runtime.notice(notice),
  };
}
