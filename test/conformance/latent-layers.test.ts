// Whole layers of latent attention against `reference`, in batches of every class.

import { expect, it } from "vitest";
import { hiddenOf, normalisedError, runSteps, unsupportedReason } from "./harness.js";
import { LATENT_LAYERS, latentLayerCase, latentSteps } from "./latent-layer-case.js";
import { referenceSteps } from "./reference-results.js";
import { describeSubjects } from "./subjects.js";

/** Squared error over squared size, of backends that quantize inputs to 8 bits or round them to f16. */
const TOLERANCE = 2e-4;

describeSubjects((subject) => {
  it.for(subject.spread(LATENT_LAYERS, LATENT_LAYERS.slice(1, 3)))("$title", async (layer, { skip }) => {
    await using backend = subject.create();
    const wanted = latentLayerCase(layer);
    const reason = unsupportedReason(backend, wanted);
    if (reason !== undefined) skip(reason);
    const steps = latentSteps(subject.cases([1, 5, 12, 20, 60], [3, 12]));
    const [expected, found] = [await referenceSteps(wanted, steps), await runSteps(backend, wanted, steps)];
    const width = layer.heads * layer.valueWidth;
    for (const [index, rows] of found.entries()) {
      const error = normalisedError(hiddenOf(rows, width), hiddenOf(expected[index], width));
      expect(error, `step ${index}`).toBeLessThan(TOLERANCE);
    }
  });
});
