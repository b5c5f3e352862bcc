// The input of a grouped GEMM in the form that its kernel takes: f16 rows of whole tokens, split rows for plain weights, whose
// results keep more bits, or rows in the order of wide products.

import type { GroupedMatmulOperation } from "../../../graph/operation.js";
import { type LoweringContext, rowsOf, type ValuePlace } from "./context.js";
import { prepareInput } from "./inputs.js";
import type { LaunchSize, LaunchSpec, MemoryPlace } from "./launch.js";
import { isPlain } from "./matmul-selection.js";
import { slotHalves } from "./regions.js";
import { heldQuads } from "./rows.js";

/** Rows that the kernels of grouped GEMM take. */
export interface GroupedHalves {
  readonly form: "half" | "slots" | "split" | "wide";
  readonly halves: MemoryPlace;
  readonly lowHalves: MemoryPlace | number;
  readonly rowScales: MemoryPlace;
  readonly stride: number;
}

/** Types of weights whose groups of 16 columns lie 32 apart: Q5_K. */
const HALVED_TYPES: ReadonlySet<number> = new Set([13]);

/** GROUP_CHUNKS of kernels/rows/wide-order.h for this type of weights. */
export function groupChunks(type: number): number {
  return HALVED_TYPES.has(type) ? 2 : 1;
}

/** kRowThreads of kernels/rows/held-row.h. */
const ROW_THREADS = 512;
/** Quads of a lane up to which a wave takes the columns of a slot. */
const MAX_WAVE_HELD = 4;

/** Kernels of rows/slot-rows.hip. */
const SLOT_KERNELS = { slots: "half_slots", split: "split_rows", wide: "wide_rows" } as const;

/** Prepares the input of a grouped matmul for steps that `isNeeded` names; `shared` is that of a shared expert. */
export function prepareGroupedInput(
  context: LoweringContext,
  operation: GroupedMatmulOperation,
  wide: boolean,
  isNeeded: (size: LaunchSize) => boolean,
  shared?: ValuePlace,
): { readonly launches: readonly LaunchSpec[]; readonly input: GroupedHalves } {
  const plain = isPlain(context.options.weights[operation.weight]);
  const form = wide ? "wide" : plain ? "split" : shared === undefined ? undefined : "slots";
  const { launches, input } =
    form === undefined ? halfRows(context, operation) : slotRows(context, operation, form, shared);
  return {
    launches: launches.map((launch) => ({
      ...launch,
      grid: (size) => (isNeeded(size) ? launch.grid(size) : [0, 0, 0]),
    })),
    input,
  };
}

function halfRows(
  context: LoweringContext,
  operation: GroupedMatmulOperation,
): { readonly launches: readonly LaunchSpec[]; readonly input: GroupedHalves } {
  const { launches, input } = prepareInput(context, context.matrix(operation.input), undefined, "half");
  if (input.form !== "half") throw new TypeError("a grouped GEMM takes f16 rows");
  const { halves, rowScales, stride } = input;
  return { launches, input: { form: "half", halves, lowHalves: 0, rowScales, stride } };
}

function slotRows(
  context: LoweringContext,
  operation: GroupedMatmulOperation,
  form: keyof typeof SLOT_KERNELS,
  shared: ValuePlace | undefined,
): { readonly launches: readonly LaunchSpec[]; readonly input: GroupedHalves } {
  const input = context.matrix(operation.input);
  const kind = form === "slots" ? "half" : form;
  const place = slotHalves(context.options, operation, context.regions.input, kind, shared === undefined ? 0 : 1);
  const { halves, lowHalves, rowScales, slots, width, stride } = place;
  const chunks = groupChunks(context.typeOf(operation.weight));
  const { waveSize } = context.options.device;
  const waveHeld = Math.ceil(stride / (4 * waveSize));
  const byWave = waveHeld <= MAX_WAVE_HELD;
  const launch: LaunchSpec = {
    label: "input of slots",
    file: "rows/slot-rows",
    variants: [
      {
        kernel: SLOT_KERNELS[form],
        defines: {
          ...(byWave ? { HELD: waveHeld, WAVE_ROWS: 1 } : { HELD: heldQuads(stride) }),
          ...(chunks === 1 ? {} : { GROUP_CHUNKS: chunks }),
        },
      },
    ],
    arguments: {
      input: input.place,
      shared: shared?.place ?? 0,
      row_count: context.rowCount(input.rows),
      halves,
      low_halves: lowHalves,
      row_scales: rowScales,
      width,
      input_stride: input.stride,
      slots,
      slot_stride: operation.inputStride,
      shared_stride: shared?.stride ?? 0,
      out_stride: stride,
    },
    grid: (size) => {
      const rows = rowsOf(size, input.rows);
      return byWave ? [Math.ceil((rows * slots) / (ROW_THREADS / waveSize)), 1, 1] : [rows, slots, 1];
    },
  };
  return { launches: [launch], input: { form, halves, lowHalves, rowScales, stride } };
}
