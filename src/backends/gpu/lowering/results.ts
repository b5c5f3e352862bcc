// Launches that compute what the step's output rows ask for from the logits: bias, mask, log-sums, candidates and tokens.

import type { ValueId } from "../../../graph/operation.js";
import type { LaunchSpec } from "./launch.js";
import { scoreBlocks } from "./output-rows.js";
import type { LoweringContext } from "./context.js";

export function lowerResults(context: LoweringContext, logits: ValueId): readonly LaunchSpec[] {
  const { place, stride, width } = context.matrix(logits);
  const { chunks, results } = context.regions;
  const shared = {
    logits: place,
    requests: context.stepField("requests"),
    row_count: context.rowCount("scored"),
    chunks,
    vocabulary: width,
    stride,
  };
  return [
    {
      label: "score",
      file: "rows/outputs",
      variants: [{ kernel: "score_chunks", defines: {} }],
      arguments: shared,
      grid: ({ scored }) => [scoreBlocks(width), scored, 1],
    },
    {
      label: "choose",
      file: "rows/outputs",
      variants: [{ kernel: "choose_outputs", defines: {} }],
      arguments: { ...shared, results },
      grid: ({ scored }) => [scored, 1, 1],
    },
  ];
}
