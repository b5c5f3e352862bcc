// Embeddings of tables that stay in host memory: the rows of a step's tokens, as the file has them, are copied to the
// device before the step, repacked there if their type is, and unpacked like those of other tables.

import type { EmbedOperation } from "../../../graph/operation.js";
import { type LoweringContext, rowsOf } from "./context.js";
import type { LaunchSpec } from "./launch.js";

const REPACK_THREADS = 256;
const BLOCK_WEIGHTS = 32;

/** `embed` is the launch over a table on the device. */
export function lowerHostEmbed(
  context: LoweringContext,
  { table }: EmbedOperation,
  embed: LaunchSpec,
): readonly LaunchSpec[] {
  const place = context.regions.hostRows.find(({ weight }) => weight === table);
  if (place === undefined) throw new TypeError("no memory was set aside for the rows of a table on the host");
  const descriptor = context.options.weights[table];
  const [width] = descriptor.shape;
  const [variant] = embed.variants;
  const looked: LaunchSpec = {
    ...embed,
    label: "embed rows of the host",
    variants: [{ ...variant, defines: { ...variant.defines, GATHERED: 1 } }],
    arguments: { ...embed.arguments, table: place.rows, rows: context.options.limits.maxTokens },
  };
  if (place.rows === place.copied) return [looked];
  const repack: LaunchSpec = {
    label: "repack rows of the host",
    file: "weights/repack",
    variants: [{ kernel: "repack_rows", defines: { TYPE0: descriptor.layout.id } }],
    arguments: { source: place.copied, target: place.rows, width },
    sized: (size) => ({ rows: rowsOf(size, "tokens") }),
    grid: (size) => [Math.ceil((rowsOf(size, "tokens") * (width / BLOCK_WEIGHTS)) / REPACK_THREADS), 1, 1],
  };
  return [repack, looked];
}
