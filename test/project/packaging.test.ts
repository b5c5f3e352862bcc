// The Dockerfile and the systemd unit: linted, and what they run is valid.

import { execFile, spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { parseOptions } from "../../src/cli/option-table.js";
import { SERVE_OPTIONS } from "../../src/cli/serve/serve-options.js";
import { TemporaryFolder } from "../support/temporary-folder.js";

const { validate } = createRequire(import.meta.url)("dockerfile-utils") as {
  validate(content: string): readonly { readonly message: string }[];
};
const run = promisify(execFile);
const textOf = (name: string): string =>
  readFileSync(fileURLToPath(new URL(`../../packaging/${name}`, import.meta.url)), "utf8");

/** The exit status of a program. */
async function statusOf([program, ...args]: readonly string[]): Promise<number> {
  return await run(program, args).then(
    () => 0,
    (error: { readonly code: number }) => error.code,
  );
}

describe("the Dockerfile", () => {
  const dockerfile = textOf("Dockerfile");
  // Instructions of several lines as one.
  const lines = dockerfile.replaceAll(/\\\n\s*/g, "").split("\n");
  const stage = lines.slice(lines.findLastIndex((line) => line.startsWith("FROM ")));
  const last = (instruction: string): string =>
    stage.findLast((line) => line.startsWith(`${instruction} `))?.slice(instruction.length + 1) ?? "";

  it("has no mistakes that a linter finds, which finds others", () => {
    expect(validate(dockerfile)).toEqual([]);
    expect(validate("FROM node\nEXPOS 8080\n").map(({ message }) => message)).toEqual(["Unknown instruction: EXPOS"]);
  });

  it("runs as a user without privileges, and contains no secrets", () => {
    expect(last("USER")).toMatch(/^[1-9]\d+$/);
    const settings = lines.filter((line) => /^(?:ENV|ARG) /.test(line)).join("\n");
    expect(settings).not.toMatch(/TOKEN|KEY|SECRET|PASSWORD/i);
    const ignored = readFileSync(new URL("../../.dockerignore", import.meta.url), "utf8").split("\n");
    expect(ignored).toEqual(expect.arrayContaining([".git", "**/node_modules", "**/.env*"]));
  });

  it("is healthy only while its server is", async () => {
    const check = JSON.parse(/CMD (?<words>\[.*\])$/.exec(last("HEALTHCHECK"))?.groups?.["words"] ?? "[]") as string[];
    let status = 503;
    const server = createServer((_request, response) => response.writeHead(status).end());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const words = check.map((word) => word.replace("8080", String((server.address() as AddressInfo).port)));
    expect(await statusOf(words)).toBe(1);
    status = 200;
    expect(await statusOf(words)).toBe(0);
    await new Promise((resolve) => server.close(resolve));
    expect(await statusOf(words)).toBe(1);
  });

  it("starts a server with options that exist", () => {
    expect(JSON.parse(last("ENTRYPOINT"))).toEqual(["rocmforge"]);
    const [command, ...args] = JSON.parse(last("CMD")) as readonly string[];
    expect(command).toBe("serve");
    expect(parseOptions(command, SERVE_OPTIONS, args).values.host).toBe("0.0.0.0");
    expect(last("EXPOSE")).toBe(String(SERVE_OPTIONS.port.fallback));
  });

  it("copies nothing that is not there", () => {
    const sources = lines
      .filter((line) => /^COPY (?!--)/.test(line))
      .flatMap((line) => line.split(" ").slice(1, -1))
      .map((name) => fileURLToPath(new URL(`../../${name}`, import.meta.url)));
    expect(sources.length).toBeGreaterThan(2);
    expect(sources.filter((path) => !existsSync(path))).toEqual([]);
  });
});

describe("the systemd unit", () => {
  const unit = textOf("rocmforge.service");
  const PROGRAM = "/usr/local/bin/rocmforge";
  /** systemd's scale goes from 0 to 10; from 50 of 100 on it warns. */
  const MOST_EXPOSURE = 25;

  it("starts a server with options that exist", () => {
    expect(unit).toContain(`ExecStart=${PROGRAM} serve $SERVE_OPTIONS\n`);
    const example = /SERVE_OPTIONS="(?<options>[^"]*)"/.exec(unit)?.groups?.["options"] ?? "";
    expect(parseOptions("serve", SERVE_OPTIONS, example.split(" ")).values).toMatchObject({ port: 8080 });
    const seconds = Number(/^TimeoutStopSec=(?<seconds>\d+)$/m.exec(unit)?.groups?.["seconds"]);
    expect(seconds).toBeGreaterThan(Number(SERVE_OPTIONS["drain-seconds"].fallback));
  });

  const { error } = spawnSync("systemd-analyze", ["--version"]);
  const why = error === undefined ? "" : " (skipped: systemd-analyze is not installed)";
  describe.skipIf(error !== undefined)(`as systemd sees it${why}`, () => {
    /** The unit with a program that exists on every machine. */
    class Unit extends TemporaryFolder {
      readonly unitPath = this.file("rocmforge.service");

      constructor(text = unit) {
        super();
        writeFileSync(this.unitPath, text.replace(PROGRAM, "/bin/true"));
      }

      analyze(...args: readonly string[]) {
        return spawnSync("systemd-analyze", [...args, this.unitPath], { encoding: "utf8" });
      }
    }

    it("is valid", () => {
      using valid = new Unit();
      expect(valid.analyze("verify")).toMatchObject({ status: 0, stderr: "" });
      using invalid = new Unit(unit.replace("ProtectSystem=strict", "ProtectSystems=strict"));
      expect(invalid.analyze("verify").stderr).toContain("ProtectSystems");
    });

    it("exposes little of the system", () => {
      using hardened = new Unit();
      const limit = `--threshold=${MOST_EXPOSURE}`;
      expect(hardened.analyze("security", "--offline=true", limit).status).toBe(0);
      using open = new Unit(unit.replaceAll(/^(?:Protect|Restrict|SystemCall|Capability)\w+=.*$/gm, ""));
      expect(open.analyze("security", "--offline=true", limit).status).not.toBe(0);
    });
  });
});
