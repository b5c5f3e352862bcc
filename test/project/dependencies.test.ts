// What `npm install rocmforge` brings along, told from the lock file's production tree: it runs on the oldest Node that
// `engines` promises, and needs none of our `overrides`, which npm reads from the root project alone and so never from
// an installed package. That is why `light-my-request`, which only Fastify imports, is a dependency of ours: its
// versions from 6.8 on depend on a `cookie` that needs Node 22, and ours is the one that npm shares with Fastify.

import { createRequire } from "node:module";
import { expect, it } from "vitest";
import lock from "../../package-lock.json" with { type: "json" };
import packageJson from "../../package.json" with { type: "json" };

interface LockedPackage {
  readonly version?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly engines?: { readonly node?: string };
  readonly dependencies?: Readonly<Record<string, string>>;
}

const { satisfies, minVersion } = createRequire(import.meta.url)("semver") as {
  satisfies(version: string, range: string): boolean;
  minVersion(range: string): { readonly version: string };
};
const PACKAGES = lock.packages as unknown as Readonly<Record<string, LockedPackage>>;
const PRODUCTION = Object.entries(PACKAGES).filter(([path, entry]) => path !== "" && entry.dev !== true);
const OLDEST_NODE = minVersion(packageJson.engines.node).version;

/** The package that `name` resolves to inside the one at `path`, as Node resolves it. */
function resolved(path: string, name: string): LockedPackage | undefined {
  for (let folder = path; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/node_modules/")))) {
    const found = PACKAGES[folder === "" ? `node_modules/${name}` : `${folder}/node_modules/${name}`];
    if (found !== undefined || folder === "") return found;
  }
}

it("promises a Node that every package it installs runs on", () => {
  expect(OLDEST_NODE).toBe("20.19.0");
  expect(PRODUCTION.length).toBeGreaterThan(20);
  const refusing = PRODUCTION.filter(
    ([, { engines }]) => engines?.node !== undefined && !satisfies(OLDEST_NODE, engines.node),
  );
  expect(refusing.map(([path, { version, engines }]) => `${path} ${version} wants Node ${engines?.node}`)).toEqual([]);
});

it("installs what its dependencies ask for, without overrides", () => {
  const bent = PRODUCTION.flatMap(([path, { dependencies = {} }]) =>
    Object.entries(dependencies).flatMap(([name, range]) => {
      const version = resolved(path, name)?.version;
      return version !== undefined && satisfies(version, range)
        ? []
        : [`${path} asks for ${name} ${range}, and the lock file has ${version}`];
    }),
  );
  expect(bent).toEqual([]);
  const names = new Set(
    PRODUCTION.map(([path]) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)),
  );
  expect(Object.keys(packageJson.overrides).filter((name) => names.has(name))).toEqual([]);
});

it("refuses no project because of the AI SDK that it has", () => {
  // npm fails to install a package whose optional peers exclude a version that the project has, even if the project never
  // imports what needs the peer: docs/ai-sdk.md has the versions that `rocmforge/ai` works with.
  expect(packageJson.peerDependencies).toEqual({ "@ai-sdk/provider": "*", ai: "*" });
  const optional = Object.entries(packageJson.peerDependenciesMeta).filter(([, meta]) => meta.optional);
  expect(optional.map(([name]) => name)).toEqual(Object.keys(packageJson.peerDependencies));
});
