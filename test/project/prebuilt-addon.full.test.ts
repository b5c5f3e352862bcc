// The addons of Linux's platform packages as `npm run package` builds them: which versions of glibc's symbols the built
// files need, and that Node loads the one of this machine.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

interface Scripts {
  buildPlatformAddon(platform: string): Promise<{ readonly addon: string }>;
  readElf(path: string): {
    readonly needed: readonly string[];
    readonly symbols: readonly { readonly name: string; readonly isDefined: boolean; readonly version?: string }[];
  };
  glibcVersion(name: string | undefined): readonly number[] | undefined;
  compareVersions(left: readonly number[], right: readonly number[]): number;
}

async function load(name: string): Promise<Scripts> {
  return (await import(pathToFileURL(join(ROOT, "scripts", name)).href)) as Scripts;
}

const { buildPlatformAddon } = await load("platform-addon.mjs");
const { readElf, glibcVersion, compareVersions } = await load("elf.mjs");
const { PLATFORMS } = (await import(pathToFileURL(join(ROOT, "scripts", "addon-platforms.mjs")).href)) as {
  PLATFORMS: Readonly<Record<string, { readonly compiler: string; readonly glibcLoader?: string }>>;
};
const THIS_PLATFORM = `${process.platform}-${process.arch}`;

describe("the prebuilt addon", () => {
  for (const [platform, { compiler, glibcLoader }] of Object.entries(PLATFORMS)) {
    if (glibcLoader === undefined) continue;
    const isMissing = process.platform !== "linux" || spawnSync(compiler, ["--version"]).status !== 0;
    const title = "needs glibc 2.28 or older, and contains its C++ library";
    const why = isMissing ? ` (skipped: there is no ${compiler} for Linux)` : "";
    it.skipIf(isMissing)(`for ${platform} ${title}${why}`, { timeout: 900_000 }, async () => {
      const { addon } = await buildPlatformAddon(platform);
      const { needed, symbols } = readElf(addon);
      const versions = symbols
        .filter(({ isDefined }) => !isDefined)
        .map(({ version }) => glibcVersion(version))
        .filter((version) => version !== undefined);
      expect(versions.length).toBeGreaterThan(20);
      expect(versions.filter((version) => compareVersions(version, [2, 28, 0]) > 0)).toEqual([]);
      expect(needed.filter((library) => /stdc\+\+|gcc_s/.test(library))).toEqual([]);
      const names = symbols.filter(({ isDefined }) => isDefined).map(({ name }) => name);
      // Sections have symbols without names.
      const exported = names.filter((name) => name !== "");
      expect(exported.toSorted()).toEqual(["napi_register_module_v1", "node_api_module_get_api_version_v1"]);
      if (platform !== THIS_PLATFORM) return;
      const program = `console.log(JSON.stringify(require(${JSON.stringify(addon)}).isas))`;
      const { stdout } = spawnSync(process.execPath, ["-e", program], { encoding: "utf8" });
      expect(JSON.parse(stdout)).toContain("portable");
    });
  }
});
