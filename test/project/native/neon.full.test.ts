// The NEON kernels: cross-compiled for aarch64 and run under qemu-user. If the tools are missing, Debian packages are
// installed as root in a container, under CI or with ROCMFORGE_TEST_INSTALL=1; otherwise the tests are skipped and name
// them.

import { beforeAll, describe, expect, it } from "vitest";
import { installPackages, mayInstall } from "../../support/debian-packages.js";
import { LIMIT_MS, nativeTests } from "./native-tests.js";

const { buildNativeTests, missingTool, nativeTestNames, runNativeTest } = nativeTests;
const PACKAGES = ["g++-aarch64-linux-gnu", "qemu-user"];

const missing = await missingTool("aarch64");
const cannot = missing !== undefined && !mayInstall();

describe.skipIf(cannot)(
  `the C++ tests for aarch64 under qemu${cannot ? ` (skipped: needs ${PACKAGES.join(" and ")})` : ""}`,
  () => {
    let programs: ReadonlyMap<string, string> = new Map();
    let lacking: string | undefined;
    beforeAll(async () => {
      lacking = missing === undefined ? undefined : await installPackages(PACKAGES, () => missingTool("aarch64"));
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
