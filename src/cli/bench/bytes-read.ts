// The fewest bytes that decoding one token reads: every weight of the program once, one row of a table that is only
// looked up, and the keys and values of the positions before it.

import { weightsOf } from "../../graph/operation.js";
import type { ExecutionPlan } from "../../plan/execution-plan.js";
import type { BenchSizes } from "./runner.js";

/** Bytes that decoding one token has to read. */
export interface BytesRead {
  readonly weightBytes: number;
  /** The mean over the decoded tokens. */
  readonly kvBytes: number;
}

/** Counts the bytes that each decoded token has to read, from the plan and the benchmark's sizes. */
export function bytesPerToken(plan: ExecutionPlan, { depth, decodeTokens }: BenchSizes): BytesRead {
  const { program, layers, config } = plan;
  const sizes = new Map(
    layers.flatMap(({ weights }) => weights.map(({ id, tensor }) => [id, tensor?.descriptor.sizeBytes ?? 0] as const)),
  );
  const wholeIds = new Set(
    program.operations.filter(({ kind }) => kind !== "embed").flatMap((operation) => weightsOf(operation)),
  );
  const tableIds = program.operations.flatMap((operation) => (operation.kind === "embed" ? [operation.table] : []));
  let weightBytes = 0;
  for (const id of wholeIds) weightBytes += sizes.get(id) ?? 0;
  for (const id of tableIds) if (!wholeIds.has(id)) weightBytes += (sizes.get(id) ?? 0) / program.vocabularySize;
  const positionBytes = plan.kvCacheBytes(config.blockTokens) / config.blockTokens;
  return { weightBytes, kvBytes: positionBytes * (depth + (decodeTokens + 1) / 2) };
}
