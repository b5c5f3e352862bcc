// A program that closes an engine while its warm-up waits for requests to end: it goes on after that, instead of ending
// with Node's status 13 because nothing but a timer that keeps no process alive is left.

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const WARM_UP = new URL("../../../dist/engine/warm-up.js", import.meta.url).href;
const ROOT = fileURLToPath(new URL("../../../", import.meta.url));

it.each([
  ["before the first step", false],
  ["before a deferred step", true],
])("ends at once when it is aborted %s", (_, deferred) => {
  const program = `
    import { WarmUp } from ${JSON.stringify(WARM_UP)};
    const ending = new AbortController();
    let busy = ${!deferred};
    const plan = {
      warmUpSteps: () => [{ deferred: ${deferred}, runs: false }],
      prepareWarmUp: async () => {},
      rehearse: async () => {},
    };
    const warmUp = new WarmUp({ plan, store: {}, vocabularySize: 4, sequences: 1, isBusy: () => busy });
    if (!${deferred}) setTimeout(() => ending.abort(), 20);
    await warmUp.run(ending.signal);
    busy = true;
    setTimeout(() => ending.abort(), 20);
    await warmUp.ended;
    console.log("closed");
  `;
  const text = execFileSync(process.execPath, ["--input-type=module", "-e", program], { cwd: ROOT, encoding: "utf8" });
  expect(text).toBe("closed\n");
});
