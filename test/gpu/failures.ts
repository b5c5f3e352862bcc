// What every failure of a GPU owes whoever asked for one: a GpuError with its kind, the call, the number and what to do,
// nothing left on the device, and a process in which another model still runs.

import { afterEach, beforeEach, expect } from "vitest";
import type { Backend } from "../../src/backends/contract.js";
import { GpuError } from "../../src/errors.js";
import { Emulator } from "./emulator/ffi.js";
import { openEmulated } from "./emulated-hip.js";
import { openModel, promptStep } from "./random-models.js";

export interface ExpectedFailure {
  readonly code: string;
  readonly kind: string;
  /** The library's function, where one gave the reason. */
  readonly call?: string;
  readonly number?: number;
  /** Part of what to do. */
  readonly remedy: RegExp;
}

/** A prompt and a few tokens. */
export async function runModel(path: string, backend: Backend): Promise<void> {
  await using model = await openModel(path, backend);
  await model.run([promptStep(5), promptStep(1, 5), promptStep(1, 6)]);
}

/** Runs a model on a backend that is made for it. */
export async function runOn(path: string, open: () => Promise<Backend>): Promise<void> {
  await using backend = await open();
  await runModel(path, backend);
}

export async function expectFailure(
  work: () => Promise<unknown>,
  { code, kind, call, number, remedy }: ExpectedFailure,
): Promise<GpuError> {
  const error = await work().then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(GpuError);
  const { details, message } = error as GpuError;
  expect(error).toMatchObject({
    code,
    details: { kind, reason: expect.stringMatching(/\S/), remedy: expect.stringMatching(remedy) },
  });
  expect({ call: details["call"], number: details["number"] }).toEqual({ call, number });
  expect(message.endsWith(`; ${String(details["remedy"])}`)).toBe(true);
  return error as GpuError;
}

/** Memory, streams and the like that an emulated runtime has given out and not got back. */
export function leftOver(library: string): Readonly<Record<string, number>> {
  const emulator = new Emulator(library);
  const counts = ["allocations", "registrations", "streams", "events", "modules", "graphs"].map(
    (what): [string, number] => [what, emulator.count(what)],
  );
  return Object.fromEntries(counts.filter(([, count]) => count !== 0));
}

/** Whatever a test did to the environment, and whatever failed in it: on a device that works, a model runs. */
export function expectAnotherRunsAfterEach(path: string): void {
  let before: NodeJS.ProcessEnv;
  beforeEach(() => {
    before = { ...process.env };
  });
  afterEach(async () => {
    for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
    Object.assign(process.env, before);
    await expect(runOn(path, async () => openEmulated(32))).resolves.toBeUndefined();
  });
}
