// The fewest bytes that decoding one token reads: every weight of the program once, of experts only the chosen ones, one
// row of a table that is only looked up, and the keys and values of the positions that each layer attends to.

import { activeShares } from "../../graph/parameter-count.js";
import { kvLayers } from "../../graph/program.js";
import type { ExecutionPlan } from "../../plan/execution-plan.js";
import type { BenchSizes } from "./runner.js";

/** Bytes that decoding one token has to read. */
export interface BytesRead {
  readonly weightBytes: number;
  /** The mean over the decoded tokens. */
  readonly kvBytes: number;
}

/** Counts the bytes that each decoded token has to read, from the plan and the benchmark's sizes. */
export function bytesPerToken(plan: ExecutionPlan, sizes: Pick<BenchSizes, "depth" | "decodeTokens">): BytesRead {
  const { program, layers } = plan;
  // A weight that several segments use, such as a tied table, is read once.
  const sizeById = new Map(
    layers.flatMap(({ weights }) => weights.map(({ id, tensor }) => [id, tensor?.descriptor.sizeBytes ?? 0] as const)),
  );
  let weightBytes = 0;
  for (const [id, share] of activeShares(program)) weightBytes += (sizeById.get(id) ?? 0) * share;
  return { weightBytes, kvBytes: kvBytesPerToken(plan, sizes) };
}

/** A layer's share of a position's bytes is that of its columns. */
function kvBytesPerToken(
  plan: ExecutionPlan,
  { depth, decodeTokens }: Pick<BenchSizes, "depth" | "decodeTokens">,
): number {
  const { program, config } = plan;
  const columns = kvLayers(program.kv).map(({ kvHeads, keyWidth, valueWidth }) => kvHeads * (keyWidth + valueWidth));
  const allColumns = columns.reduce((total, own) => total + own, 0);
  const positionBytes = plan.kvCacheBytes(config.blockTokens) / config.blockTokens;
  const positions = depth + (decodeTokens + 1) / 2;
  let bytes = 0;
  for (const operation of program.operations) {
    if (operation.kind !== "attention") continue;
    const reachable = Math.min(positions, operation.window ?? operation.chunk ?? positions);
    bytes += (positionBytes * columns[operation.layer] * reachable) / allColumns;
  }
  return bytes;
}
