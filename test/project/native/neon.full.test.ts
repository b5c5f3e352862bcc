// The NEON kernels: cross-compiled for aarch64 and run under qemu-user. If the tools are missing, Debian packages are
// installed as root in a container, under CI or with ROCMFORGE_TEST_INSTALL=1; otherwise the tests are skipped and name
// them.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { beforeAll, describe, expect, it } from "vitest";
import { LIMIT_MS, nativeTests } from "./native-tests.js";

const { buildNativeTests, missingTool, nativeTestNames, runNativeTest } = nativeTests;
const PACKAGES = ["g++-aarch64-linux-gnu", "qemu-user"];
const INSTALL_LIMIT_MS = 300_000;

/** A developer's own machine is not changed without permission. */
function mayInstall(): boolean {
  if (process.getuid?.() !== 0) return false;
  const { CI = "", ROCMFORGE_TEST_INSTALL = "" } = process.env;
  const isContainer = ["/.dockerenv", "/run/.containerenv"].some((path) => existsSync(path));
  return isContainer || ROCMFORGE_TEST_INSTALL === "1" || !["", "0", "false"].includes(CI);
}

/** The tools that are still missing. */
async function installPackages(): Promise<string | undefined> {
  const options = { timeout: INSTALL_LIMIT_MS, env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } };
  const install = (): void =>
    void spawnSync("apt-get", ["install", "-y", "--no-install-recommends", ...PACKAGES], options);
  install();
  if ((await missingTool("aarch64")) === undefined) return undefined;
  // A new image has no package lists.
  spawnSync("apt-get", ["update"], options);
  install();
  return await missingTool("aarch64");
}

const missing = await missingTool("aarch64");
const cannot = missing !== undefined && !mayInstall();

describe.skipIf(cannot)(
  `the C++ tests for aarch64 under qemu${cannot ? ` (skipped: needs ${PACKAGES.join(" and ")})` : ""}`,
  () => {
    let programs: ReadonlyMap<string, string> = new Map();
    let lacking: string | undefined;
    beforeAll(async () => {
      lacking = missing === undefined ? undefined : await installPackages();
      if (lacking === undefined) programs = await buildNativeTests("aarch64");
    }, LIMIT_MS);

    it.concurrent.for(nativeTestNames())("%s", { timeout: LIMIT_MS }, async (name, { skip }) => {
      if (lacking !== undefined)
        skip(`there is no ${lacking}, and apt-get could not install ${PACKAGES.join(" and ")}`);
      const { exitCode, output } = await runNativeTest("aarch64", name, programs.get(name) ?? "");
      expect({ exitCode, said: exitCode === 0 ? "" : output }).toEqual({ exitCode: 0, said: "" });
    });
  },
);
