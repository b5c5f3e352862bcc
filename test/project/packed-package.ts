// The package as its tarball has it, unpacked where npm would install it: with this checkout's dependencies and addon
// beside it, so that nothing is downloaded or compiled.

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import packageJson from "../../package.json" with { type: "json" };
import { TemporaryFolder } from "../support/temporary-folder.js";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const ADDON = "native/cpu/build";

/** A folder of a project that has the package installed. */
export class PackedPackage implements Disposable {
  readonly #folder = new TemporaryFolder();

  constructor() {
    const modules = this.file("node_modules");
    const installed = join(modules, "rocmforge");
    mkdirSync(installed, { recursive: true });
    const [{ filename }] = JSON.parse(
      execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", this.path], {
        cwd: ROOT,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
      }),
    ) as readonly { readonly filename: string }[];
    execFileSync("tar", ["-xzf", filename, "-C", installed, "--strip-components", "1"], { cwd: this.path });
    if (existsSync(join(ROOT, ADDON))) cpSync(join(ROOT, ADDON), join(installed, ADDON), { recursive: true });
    for (const name of Object.keys(packageJson.dependencies)) {
      mkdirSync(dirname(join(modules, name)), { recursive: true });
      symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
    }
    writeFileSync(this.file("package.json"), JSON.stringify({ name: "project", type: "module" }));
  }

  get path(): string {
    return this.#folder.path;
  }

  file(name: string): string {
    return this.#folder.file(name);
  }

  /** Standard output of a Node program that is run in the project's folder; throws if it fails. */
  node(...args: readonly string[]): string {
    return execFileSync(process.execPath, args, {
      cwd: this.path,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  [Symbol.dispose](): void {
    this.#folder[Symbol.dispose]();
  }
}
