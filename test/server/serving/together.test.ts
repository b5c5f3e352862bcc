// In deterministic mode a text does not depend on its batch-mates: each of many requests gets the text that it gets alone, with
// prefixes shared or not, with blocks to spare or so few that requests lose their place and begin again.

import { describe, expect, it } from "vitest";
import { Model } from "../../../src/internals.js";
import { FULL_RUN } from "../../support/full-run.js";
import { openEmulated } from "../../gpu/emulated-hip.js";
import { describeEmulator } from "../../gpu/emulator/build.js";
import {
  compare,
  EMBEDDED,
  openOn,
  REQUESTS,
  SMALL,
  writeAlone,
  type Writing,
  writeTogether,
} from "./batched-texts.js";

describe.each([
  { backend: "cpu", path: EMBEDDED, requests: REQUESTS, maxTokens: 24 },
  { backend: "reference", path: SMALL, requests: FULL_RUN ? REQUESTS : 8, maxTokens: 3 },
] as const)("$backend, deterministic", ({ backend, path, requests, maxTokens }) => {
  it(`gives each of ${requests} together the text it has alone, prefixes shared or not`, async () => {
    await compare({ open: openOn(backend, path), requests, maxTokens });
  });
});

describeEmulator("hip on the emulated device, deterministic", () => {
  it("gives each of a few together the text it has alone, prefixes shared or not", async () => {
    // More than one chunk of prompts, so that the later ones find what the first have read.
    const open: Writing["open"] = (serving) =>
      Model.open(SMALL, openEmulated(32, { deterministic: true }), {
        contextTokens: 64,
        ...(serving === undefined ? {} : { serving }),
      });
    await compare({ open, requests: 4, maxTokens: 3 });
  });
});

describe("cpu, deterministic, with few blocks", () => {
  const writing = { open: openOn("cpu", EMBEDDED), requests: REQUESTS, maxTokens: 40 };
  let alone: Promise<readonly string[]> | undefined;
  it.each([true, false])(
    "gives the same texts to those who lost their place (prefixes shared: %s)",
    async (sharesPrefixes) => {
      const crowded = await writeTogether(writing, { kvCacheTokens: 288, sharesPrefixes });
      expect(crowded.preemptions).toBeGreaterThan(0);
      alone ??= writeAlone(writing);
      expect(crowded.texts).toEqual(await alone);
    },
  );
});
