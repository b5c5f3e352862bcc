// `npm run package`: writes the tarballs that are published, the package and a package with the prebuilt addon for each
// platform that is named (`npm run package -- linux-x64 win32-x64`; this machine's if none is), into build/packages or
// the folder that `--out` names. Standard output is their paths, one on each line.

import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import { ADDON_NAME, STAMP_NAME } from "./addon.mjs";
import { PLATFORMS, platformPackage } from "./addon-platforms.mjs";
import { bootstrapBuild, ROOT } from "./bootstrap.mjs";
import { withBuildLock } from "./build-lock.mjs";
import { npmCommand } from "./install.mjs";
import { buildPlatformAddon } from "./platform-addon.mjs";
import { main, runProgram, say, ScriptError, step } from "./tool.mjs";

const THIS_PLATFORM = `${process.platform}-${process.arch}`;
const CACHE = join(ROOT, ".cache");
const MEGABYTE = 1e6;
const LOCK_LIMIT_MS = 60 * 60_000;

/** Refuses a platform whose addon cannot be built here, before anything is built. */
function checkHost(platform) {
  const known = PLATFORMS[platform];
  if (known === undefined)
    throw new ScriptError(
      `there is no package for ${platform}; name one of ${Object.keys(PLATFORMS).join(", ")}, or let npm build from source`,
    );
  if (!known.hosts.includes(THIS_PLATFORM))
    throw new ScriptError(
      `the addon for ${platform} is built on ${known.hosts.join(" or ")} (Debian: apt-get install ${known.debianPackages.join(" ")}), and this is ${THIS_PLATFORM}`,
    );
}

function readArguments(args) {
  const out = args.indexOf("--out");
  const folder = out === -1 ? join(ROOT, "build", "packages") : resolve(args[out + 1] ?? "");
  const named = args.filter((argument, index) => out === -1 || (index !== out && index !== out + 1));
  const unknown = named.find((platform) => PLATFORMS[platform] === undefined);
  if (unknown !== undefined || (out !== -1 && args[out + 1] === undefined))
    throw new ScriptError(
      `expected: npm run package -- [PLATFORM…] [--out FOLDER], where PLATFORM is one of ${Object.keys(PLATFORMS).join(", ")}`,
    );
  const platforms = named.length === 0 ? [THIS_PLATFORM] : named;
  for (const platform of platforms) checkHost(platform);
  return { folder, platforms };
}

/** Packs a folder; returns the tarball's path. */
async function pack(source, destination) {
  const [command, prefix] = npmCommand();
  const args = [...prefix, "pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", destination];
  const { exitCode, output } = await runProgram(command, args, { cwd: source });
  if (exitCode !== 0) throw new ScriptError(`\`npm pack\` did not succeed in ${source}`, { tail: output });
  const { name, version } = JSON.parse(readFileSync(join(source, "package.json"), "utf8"));
  const path = join(destination, `${name.replace("@", "").replace("/", "-")}-${version}.tgz`);
  say(`${basename(path)}: ${(statSync(path).size / MEGABYTE).toFixed(1)} MB`);
  return path;
}

/** The licences of what is compiled into the addon. */
function notices(platform) {
  const modules = createRequire(join(ROOT, "package.json"));
  const parts = [
    ["node-addon-api", join(dirname(modules.resolve("node-addon-api/package.json")), "LICENSE.md")],
    ["node-api-headers", join(dirname(modules.resolve("node-api-headers/package.json")), "LICENSE")],
    ...(platform.startsWith("win32") ? [["MinGW-w64 runtime", "/usr/share/doc/mingw-w64-common/copyright"]] : []),
  ];
  const texts = parts
    .filter(([, path]) => existsSync(path))
    .map(([name, path]) => `${name}\n\n${readFileSync(path, "utf8").trim()}\n`);
  const library =
    "GCC's libstdc++ and libgcc are linked statically under the GCC Runtime Library Exception, version 3.1.\n";
  return [...texts, library].join("\n----\n\n");
}

/** Lays out a platform's package and returns its folder. */
function writePlatformPackage(platform, { addon, hash }) {
  const { version, license, engines } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const name = platformPackage(platform);
  const folder = join(CACHE, "platform-packages", platform);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const manifest = {
    name,
    version,
    description: `The prebuilt native addon of rocmforge for ${platform}`,
    license,
    ...PLATFORMS[platform].npm,
    engines,
    main: ADDON_NAME,
    files: [ADDON_NAME, STAMP_NAME, "LICENSE", "THIRD-PARTY-NOTICES"],
    preferUnplugged: true,
  };
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, undefined, 2)}\n`);
  writeFileSync(
    join(folder, "README.md"),
    `# ${name}\n\nThe native addon of [rocmforge](https://www.npmjs.com/package/rocmforge) for ${platform}, which installs this package by itself.\n`,
  );
  writeFileSync(join(folder, "THIRD-PARTY-NOTICES"), notices(platform));
  writeFileSync(join(folder, STAMP_NAME), hash);
  copyFileSync(join(ROOT, "LICENSE"), join(folder, "LICENSE"));
  copyFileSync(addon, join(folder, ADDON_NAME));
  return folder;
}

await main(async (args) => {
  const { folder, platforms } = readArguments(args);
  mkdirSync(folder, { recursive: true });
  mkdirSync(CACHE, { recursive: true });
  // Several tests write packages.
  const tarballs = await withBuildLock(join(CACHE, "package-lock"), { limitMs: LOCK_LIMIT_MS }, () =>
    writeTarballs(folder, platforms),
  );
  console.log(tarballs.join("\n"));
});

async function writeTarballs(folder, platforms) {
  await bootstrapBuild();
  const tarballs = [await pack(ROOT, folder)];
  for (const platform of platforms) {
    const built = await step(`building the native addon for ${platform}`, () => buildPlatformAddon(platform));
    tarballs.push(await pack(writePlatformPackage(platform, built), folder));
  }
  return tarballs;
}
