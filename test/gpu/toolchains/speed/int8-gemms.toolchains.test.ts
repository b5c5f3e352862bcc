// Products of bytes by the book: that lowering takes them exactly where their code costs less than that of products of halves.
// `npm run test:toolchains -- --update` writes the table into docs/amd.md.

import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { takesInt8Gemm } from "../../../../src/backends/gpu/lowering/int8-gemm.js";
import { KernelChoices } from "../../../../src/backends/gpu/lowering/kernel-choices.js";
import { batchClass } from "../../../../src/backends/gpu/lowering/matmul-selection.js";
import { layoutByName } from "../../../../src/quant/layout.js";
import { TemporaryFolder } from "../../../support/temporary-folder.js";
import { BYTE_ARCHITECTURES, type ComparedGemms, compareGemms } from "./int8-gemms.js";
import { type Card, CARDS } from "./cards.js";
import { missingTools } from "./measure.js";
import { DOCUMENT, type ShownGemms, withGemms } from "./table.js";

const LIMIT_MS = 600_000;
const missing = (await missingTools())?.missing;
const isUpdate = process.env["ROCMFORGE_TOOLCHAINS_UPDATE"] === "1";
const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const cards = CARDS.filter(({ architecture }) => BYTE_ARCHITECTURES.includes(architecture));
const choices = new KernelChoices({ deterministic: false });
const shown: ShownGemms[] = [];

function takes({ device }: Card, { type, tokens }: ComparedGemms): boolean {
  const weight = { name: "w", layout: layoutByName(type), shape: [4096, 4096], elements: 2 ** 24, sizeBytes: 0 };
  return takesInt8Gemm({ device }, weight, batchClass(tokens), choices);
}

describe.skipIf(missing !== undefined).each(cards.map((card) => [card.architecture, card] as const))(
  "products of bytes on %s (needs clang 22 and llvm-mca 22)",
  (_, card) => {
    it("are taken where they cost less, and then spill nothing", { timeout: LIMIT_MS }, async () => {
      const compared = await compareGemms(card, folder);
      shown.push({ card, compared, takes: (gemms) => takes(card, gemms) });
      const labelOf = ({ type, tokens }: ComparedGemms): string => `${type}, ${tokens} tokens`;
      const taken = compared.filter((gemms) => takes(card, gemms));
      expect(taken.filter(({ bytes }) => bytes.stackBytes > 0).map(labelOf)).toEqual([]);
      expect(taken.filter(({ bytes, halves }) => bytes.cycles >= halves.cycles).map(labelOf)).toEqual([]);
      expect(taken.length).toBeGreaterThan(5);
    });
  },
);

it.skipIf(missing !== undefined)("are in docs/amd.md (needs clang 22 and llvm-mca 22)", () => {
  const document = readFileSync(DOCUMENT, "utf8");
  const written = withGemms(document, shown);
  if (isUpdate) writeFileSync(DOCUMENT, written);
  for (const { card, compared } of shown)
    for (const { type, tokens } of compared)
      expect(document.includes(`| ${card.name} | ${type} | ${tokens} |`) || isUpdate, `${card.name}, ${type}`).toBe(
        true,
      );
});
