// `rocmforge completion`: the scripts in real shells, and the names of models that they ask for.

import { expect, it } from "vitest";
import { HubEnvironment, MODEL_BYTES } from "../hub/hub-environment.js";
import { TestHub } from "../hub/test-hub.js";
import { rocmforge } from "./command-line.js";
import { describeBashCompletion, describeCompletion } from "./completion-cases.js";

describeBashCompletion();
describeCompletion();

it("lists the models in the caches for the scripts", async () => {
  await using hub = await TestHub.start([{ path: "fable-Q4_K_M.gguf", bytes: MODEL_BYTES }]);
  using _ = new HubEnvironment(hub);
  expect(await rocmforge(["completion", "models"])).toEqual({ status: 0, stdout: "", stderr: "" });
  await rocmforge(["pull", `hf:${hub.repository}`, "--backend", "reference"]);
  expect((await rocmforge(["completion", "models"])).stdout).toBe("hf:tester/fable-GGUF:Q4_K_M\n");
});

it.each([
  [[], /expected a shell \(bash, zsh, fish\), found nothing/],
  [["bahs"], /found "bahs"; did you mean "bash"\?/],
])("rejects %j", async (args, line) => {
  const refused = await rocmforge(["completion", ...args]);
  expect(refused).toMatchObject({ status: 2, stdout: "" });
  expect(refused.stderr).toMatch(line);
});
