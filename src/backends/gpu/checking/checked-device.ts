// What the checks of all programs on one device share: the record of its modules, and how the device is named in messages.

import type { Backend } from "../../contract.js";
import type { DriverKind, GpuCompiler, GpuProperties } from "../drivers/shared/driver.js";
import { Lock } from "../drivers/shared/lock.js";
import { DeviceRecord } from "../kernels/device-record.js";
import type { KernelChoices } from "../lowering/kernel-choices.js";
import type { GpuRuntime } from "../memory/runtime.js";
import type { CheckedDevice } from "./kernel-check.js";
import { ModuleTrust } from "./module-trust.js";

/** What the check of kernels needs besides the device. */
export interface KernelCheckOptions {
  /** Opens the backend whose results are right. */
  openOracle(): Promise<Backend>;
  /** What the results of checks depend on. */
  readonly identity: {
    readonly kind: DriverKind;
    readonly device: GpuProperties;
    /** The driver's version. */
    readonly driver: string;
    readonly compiler: GpuCompiler;
    /** Whether kernels begin with poor parameters. */
    readonly poor: boolean;
  };
}

/** The device as its checks see it; undefined if kernels are not checked. */
export function checkedDevice(
  options: KernelCheckOptions | undefined,
  choices: KernelChoices,
  runtime: GpuRuntime,
): CheckedDevice | undefined {
  if (options === undefined) return undefined;
  const { kind, device, driver, compiler, poor } = options.identity;
  const record = new DeviceRecord({ kind, device, driver, compiler: compiler.identity, poor });
  const { name, architecture } = device;
  return {
    trust: new ModuleTrust(record, choices),
    choices,
    place: runtime.place,
    identity: `${name} (${architecture}) with driver ${driver} and ${compiler.release ?? compiler.identity}`,
    lock: new Lock(),
    openOracle: options.openOracle,
    report: (notice) => runtime.notice(notice),
  };
}
