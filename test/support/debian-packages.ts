// Debian packages that long tests need. They are installed as root in a container, under CI or with
// ROCMFORGE_TEST_INSTALL=1; a developer's own machine is not changed without permission.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

const INSTALL_LIMIT_MS = 300_000;

/** Whether packages may be installed here. */
export function mayInstall(): boolean {
  if (process.getuid?.() !== 0) return false;
  const { CI = "", ROCMFORGE_TEST_INSTALL = "" } = process.env;
  const isContainer = ["/.dockerenv", "/run/.containerenv"].some((path) => existsSync(path));
  return isContainer || ROCMFORGE_TEST_INSTALL === "1" || !["", "0", "false"].includes(CI);
}

/** Installs packages; returns what `missing` finds to be missing afterwards. */
export async function installPackages(
  packages: readonly string[],
  missing: () => Promise<string | undefined>,
): Promise<string | undefined> {
  const options = { timeout: INSTALL_LIMIT_MS, env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } };
  const install = (): void =>
    void spawnSync("apt-get", ["install", "-y", "--no-install-recommends", ...packages], options);
  install();
  if ((await missing()) === undefined) return undefined;
  // A new image has no package lists.
  spawnSync("apt-get", ["update"], options);
  install();
  return await missing();
}
