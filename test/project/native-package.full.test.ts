// The addon as users get it: built by `npm install`, or by `doctor --build` if scripts were ignored.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { nativeTests } from "./native/native-tests.js";
import { TemporaryFolder } from "../support/temporary-folder.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const missing = await nativeTests.missingTool("host");
const why = missing === undefined ? "" : ` (skipped: there is no ${missing})`;

function npm(cwd: string, ...args: string[]): string {
  return execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

function doctor(program: string, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, "doctor", "--json", ...args], {
    cwd: "/",
    encoding: "utf8",
  });
  const { auto, backends } = JSON.parse(stdout) as {
    auto: string;
    backends: readonly { name: string; diagnostics?: { addon: string } }[];
  };
  return { status, stderr, auto, addon: backends.find(({ name }) => name === "cpu")?.diagnostics?.addon };
}

describe.skipIf(missing !== undefined)(`the packed package${why}`, () => {
  it("builds its addon on install, and on request if scripts were ignored or the package is global", () => {
    using folder = new TemporaryFolder();
    const [{ filename }] = JSON.parse(npm(ROOT, "pack", "--json", "--pack-destination", folder.path)) as readonly {
      readonly filename: string;
    }[];
    const packed = folder.file(filename);

    const installed = folder.file("installed");
    mkdirSync(installed);
    npm(installed, "init", "--yes");
    npm(installed, "install", "--no-audit", "--no-fund", packed);
    const own = join(installed, "node_modules", "rocmforge");
    expect(doctor(join(own, "dist", "cli", "main.js"))).toMatchObject({
      status: 0,
      auto: "cpu",
      addon: expect.stringContaining(own),
    });

    const compiler = join(ROOT, "node_modules", "typescript", "bin", "tsc");
    const options = [
      "--noEmit",
      "--strict",
      "--module",
      "nodenext",
      "--target",
      "es2022",
      "--lib",
      "es2023,esnext.disposable",
    ];
    const declarations = ["native-bindings", "addon"].map((name) =>
      join(own, "dist", "backends", "cpu", `${name}.d.ts`),
    );
    expect(
      spawnSync(process.execPath, [compiler, ...options, ...declarations], { cwd: installed, encoding: "utf8" }),
    ).toMatchObject({ status: 0, stdout: "" });

    const prefix = folder.file("global");
    npm(folder.path, "install", "--global", "--prefix", prefix, "--ignore-scripts", "--no-audit", "--no-fund", packed);
    const program = join(prefix, "lib", "node_modules", "rocmforge", "dist", "cli", "main.js");
    expect(doctor(program)).toMatchObject({ status: 1, auto: "reference" });
    expect(doctor(program, "--build")).toMatchObject({
      status: 0,
      auto: "cpu",
      stderr: expect.stringContaining("building the native addon"),
    });
  });
});
