// The NEON kernels: cross-compiled for aarch64 and run under qemu-user. Where the tools are missing and this process may
// install Debian's packages (as root in a container), it does; elsewhere the tests skip and say what they lack.

import { spawnSync } from "node:child_process";
import { beforeAll, describe, expect, it } from "vitest";
import { LIMIT_MS, nativeTests } from "./native-tests.js";

const { buildNativeTests, missingTool, nativeTestNames, runNativeTest } = nativeTests;
const PACKAGES = ["g++-aarch64-linux-gnu", "qemu-user"];
const INSTALL_LIMIT_MS = 300_000;

/** Undefined when the tools are there in the end. */
async function obstacle(): Promise<string | undefined> {
  if ((await missingTool("aarch64")) === undefined) return undefined;
  if (process.getuid?.() !== 0) return `needs ${PACKAGES.join(" and ")}`;
  const options = { timeout: INSTALL_LIMIT_MS, env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } };
  const install = (): void => void spawnSync("apt-get", ["install", "-y", "--no-install-recommends", ...PACKAGES], options);
  install();
  if ((await missingTool("aarch64")) === undefined) return undefined;
  // A fresh image knows no packages until it has asked.
  spawnSync("apt-get", ["update"], options);
  install();
  const missing = await missingTool("aarch64");
  return missing === undefined ? undefined : `there is no ${missing}, and apt-get could not install ${PACKAGES.join(" and ")}`;
}

const reason = await obstacle();

describe.skipIf(reason !== undefined)(`the C++ tests for aarch64 under qemu${reason === undefined ? "" : ` (skipped: ${reason})`}`, () => {
  let programs: ReadonlyMap<string, string> = new Map();
  beforeAll(async () => {
    programs = await buildNativeTests("aarch64");
  }, LIMIT_MS);

  it.concurrent.each(nativeTestNames())("%s", async (name) => {
    const { exitCode, output } = await runNativeTest("aarch64", name, programs.get(name) ?? "");
    expect({ exitCode, said: exitCode === 0 ? "" : output }).toEqual({ exitCode: 0, said: "" });
  }, LIMIT_MS);
});
