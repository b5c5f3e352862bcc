// The speed of AMD's cards by the book: what the code objects of hot kernels say, held against each card's public figures.
// `npm run test:toolchains -- --update` writes the figures into docs/amd.md.

import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../support/temporary-folder.js";
import { report } from "../report.js";
import { CARDS, neededBytes } from "./cards.js";
import { type MeasuredKernel, measureCard, missingTools } from "./measure.js";
import { DOCUMENT, shownFigures, type ShownFigures, withTables } from "./table.js";

/** All hot kernels of a card, on a busy machine with two cores. */
const LIMIT_MS = 900_000;
/** Of the issue slots that bandwidth leaves. */
const MOST_SLOTS = 0.5;
/** Of all units together, whose instructions a SIMD issues side by side if they are of several waves. */
const MOST_ALL_SLOTS = 0.6;

const missing = (await missingTools())?.missing;
const isUpdate = process.env["ROCMFORGE_TOOLCHAINS_UPDATE"] === "1";
const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());
if (missing !== undefined) report({ toolchain: "code objects by the book", skipped: missing });

const shownOf: Record<string, ShownFigures[string]> = {};

describe.skipIf(missing !== undefined).each(CARDS.map((card) => [card.architecture, card] as const))(
  "hot kernels of %s (needs clang 22 and llvm-mca 22)",
  (architecture, card) => {
    let measured: readonly MeasuredKernel[] = [];
    const labels = (isBad: (kernel: MeasuredKernel) => boolean): readonly string[] =>
      measured.filter(isBad).map(({ hot }) => hot.label);
    const streams = (): readonly MeasuredKernel[] =>
      measured.filter(({ hot }) => hot.kind === "stream" && !hot.label.endsWith("tokens"));

    it("are compiled and taken apart", { timeout: LIMIT_MS }, async () => {
      measured = await measureCard(card, folder);
      shownOf[architecture] = shownFigures(measured);
      expect(measured.length).toBeGreaterThan(30);
      expect(measured.every(({ figures }) => figures.region.length > 0 && figures.slots > 0)).toBe(true);
    });

    it("spill nothing, and address memory as global", () => {
      expect(labels(({ figures }) => figures.stackBytes > 0)).toEqual([]);
      expect(labels(({ figures }) => figures.flat > 0)).toEqual([]);
    });

    it("keep caches and loads out of barriers that are for shared memory", () => {
      expect(labels(({ figures }) => figures.invalidations > 0)).toEqual([]);
    });

    it("need less than half of the issue slots that bandwidth leaves, to decode", () => {
      // What is read in less than two latencies is not limited by bandwidth.
      const long = streams().filter(({ hot }) => hot.streamedBytes >= 2 * neededBytes(card));
      expect(long.length).toBeGreaterThan(5);
      const most = long.filter(({ figures }) => figures.vectorSlotsPerByte >= figures.budget * MOST_SLOTS);
      expect(most.map(({ hot, figures }) => [hot.label, figures.vectorSlotsPerByte / figures.budget])).toEqual([]);
      const mostOfAll = long.filter(({ figures }) => figures.slotsPerByte >= figures.budget * MOST_ALL_SLOTS);
      expect(mostOfAll.map(({ hot, figures }) => [hot.label, figures.slotsPerByte / figures.budget])).toEqual([]);
    });

    it("have bytes in flight for the whole bandwidth, to decode", () => {
      const few = streams().filter(({ figures }) => figures.bytesInFlight < figures.neededBytes);
      expect(few.map(({ hot, figures }) => [hot.label, figures.bytesInFlight / 1e6])).toEqual([]);
    });
  },
);

it.skipIf(missing !== undefined)("are in docs/amd.md (needs clang 22 and llvm-mca 22)", () => {
  const document = readFileSync(DOCUMENT, "utf8");
  const written = withTables(document, CARDS, shownOf);
  if (isUpdate) writeFileSync(DOCUMENT, written);
  // Another version of the compiler allocates registers otherwise: only that every kernel has its row is asked for.
  for (const label of new Set(Object.values(shownOf).flatMap((figures) => Object.keys(figures))))
    expect(document.includes(`| ${label} |`) || isUpdate, `${label}: npm run test:toolchains -- --update`).toBe(true);
});
