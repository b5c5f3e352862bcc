// What is expected of the samples of the README and of docs/ when they run.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { HubEnvironment } from "../hub/hub-environment.js";
import { TestHub } from "../hub/test-hub.js";
import { isServer, ReadmeFolder } from "./readme-samples.js";

const EMBEDDED = fileURLToPath(new URL("../../models/fable-10m-Q4_K_M.gguf", import.meta.url));

/** A sample succeeds and prints something. */
export async function expectSample(line: string): Promise<void> {
  using folder = new ReadmeFolder();
  const { status, stdout, stderr } = await folder.run(line);
  // If the addon cannot be built, doctor's status says so.
  if (/^(?:npx )?rocmforge doctor\b/.test(line)) expect([0, 1]).toContain(status);
  else expect({ status, stderr: status === 0 ? "" : stderr }).toEqual({ status: 0, stderr: "" });
  // A chat without messages prints nothing.
  if (!/^rocmforge (?:chat|run .*--terminal)\b/.test(line)) expect(stdout).toMatch(/\S/);
}

/** A server becomes healthy, and ends with 0 when it is asked to. */
export async function expectServer(line: string): Promise<void> {
  using folder = new ReadmeFolder();
  expect(await folder.serve(line)).toEqual({ health: 200, status: 0 });
}

/** The commands of a block succeed one after the other, with a hub on localhost that has the repository they name. */
export async function expectBlock({ commands }: { readonly commands: readonly string[] }): Promise<void> {
  await using hub = await TestHub.start([{ path: "model-Q4_K_M.gguf", bytes: readFileSync(EMBEDDED) }]);
  hub.repository = "user/repo";
  using environment = new HubEnvironment(hub);
  using folder = new ReadmeFolder(environment.variables(hub));
  for (const command of commands) {
    if (isServer(command)) {
      expect(await folder.serve(command)).toEqual({ health: 200, status: 0 });
      continue;
    }
    const { status, stdout, stderr } = await folder.run(command);
    expect({ command, status, stderr: status === 0 ? "" : stderr }).toEqual({ command, status: 0, stderr: "" });
    if (!command.includes("--terminal")) expect(stdout).toMatch(/\S/);
  }
}
