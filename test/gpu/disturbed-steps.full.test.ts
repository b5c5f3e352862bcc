// Steps that are queued before the previous one has ended, on the emulated device: models with and without recurrent layers,
// disturbed in every way (../conformance/disturbed-texts.ts), with drafts now and then.

import { afterAll, expect, it } from "vitest";
import { writeGguf } from "../../src/gguf/writer.js";
import type { TextDrafter } from "../../src/speculation/drafter.js";
import { expectUndisturbedTexts } from "../conformance/disturbed-texts.js";
import { familyModel } from "../conformance/models/family-model.js";
import { familyCase } from "../conformance/models/family-shapes.js";
import { KnownTextDrafter } from "../conformance/speculation-texts.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { describeEmulator } from "./emulator/build.js";
import { openEmulated } from "./emulated-hip.js";

const FAMILIES = ["qwen35", "mamba2", "lfm2moe", "gemma3", "qwen3moe"];
/** Of this many tokens of a text, the first few are drafted from. */
const PERIOD = 6;
const DRAFTED = 2;
/** No token that follows depends on the text so far. */
const SAMPLINGS = [{ temperature: 0 }, { temperature: 0.9, topK: 12 }, { temperature: 1, topK: 0, topP: 0.95 }];

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

/** Drafts at some places of a text, so that steps without a draft come between. */
class SporadicDrafter implements TextDrafter {
  readonly firstAcceptance = [1];
  readonly #known: KnownTextDrafter;

  constructor(texts: readonly (readonly number[])[]) {
    this.#known = new KnownTextDrafter(texts);
  }

  draft(tokens: Int32Array, most: number) {
    return tokens.length % PERIOD < DRAFTED ? this.#known.draft(tokens, most) : undefined;
  }
}

describeEmulator("disturbed steps that are queued early", () => {
  it.each(FAMILIES)("%s", async (family) => {
    const { seed, shape } = familyCase(family, 0);
    const path = folder.file(`${family}.gguf`);
    await writeGguf(path, familyModel(seed, { ...shape, predictingLayers: 0, context: 512 }));
    const early = { steps: 0 };
    await expectUndisturbedTexts({
      path,
      seed,
      create: () => openEmulated(32, { deterministic: true }),
      drafterOf: (texts) => new SporadicDrafter(texts),
      rounds: 1,
      samplings: SAMPLINGS,
      early,
    });
    expect(early.steps).toBeGreaterThan(10);
  });
});
