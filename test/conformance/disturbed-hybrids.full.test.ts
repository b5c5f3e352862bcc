// Models with recurrent layers in deterministic mode, disturbed in every way (disturbed-texts.ts), with drafts all along.

import { afterAll, it } from "vitest";
import { writeGguf } from "../../src/gguf/writer.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { expectUndisturbedTexts } from "./disturbed-texts.js";
import { familyModel } from "./models/family-model.js";
import { familyCase } from "./models/family-shapes.js";
import { KnownTextDrafter } from "./speculation-texts.js";
import { BEST_SUBJECT, describeCpu } from "./subjects.js";

const FAMILIES = ["qwen35", "qwen3next", "nemotron_h", "granitehybrid", "falcon-h1", "mamba2", "lfm2", "lfm2moe"];
const SHAPES = 3;

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const CASES = FAMILIES.flatMap((family) => Array.from({ length: SHAPES }, (_, number) => ({ family, number })));

describeCpu("disturbed sequences with drafts", () => {
  it.each(CASES)("$family, shape $number", async ({ family, number }) => {
    const { seed, shape } = familyCase(family, number);
    const path = folder.file(`${family}-${number}.gguf`);
    await writeGguf(path, familyModel(seed, { ...shape, predictingLayers: 0, context: 512 }));
    const create = () => BEST_SUBJECT.create({ deterministic: true });
    await expectUndisturbedTexts({ path, seed, create, drafterOf: (texts) => new KnownTextDrafter(texts), rounds: 2 });
  });
});
