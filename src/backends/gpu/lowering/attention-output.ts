// Where attention writes its result, and in which form: the defines and arguments of kernels/attention/output.h.

import type { Defines } from "../kernels/kernel-source.js";
import type { LaunchResult, LaunchSize, LaunchSpec, MemoryPlace } from "./launch.js";
import { floatResult, halfResults, quantizedResults } from "./launch-results.js";
import type { ValuePlace } from "./context.js";
import type { HandedInput } from "./inputs.js";
import { FLOAT_BYTES, HALF_BYTES } from "./regions.js";
import { shifted } from "./scratch.js";

const OUTPUTS = { floats: 0, quantized: 1, half: 2, slots: 3, wide: 4, panels: 5 } as const;

export interface Written {
  /** What a kernel is compiled with: one set of defines, or two that steps choose from. */
  readonly forms: readonly Defines[];
  /** Index in `forms` for a step of this size. */
  formOf(size: LaunchSize): number;
  readonly values: LaunchSpec["arguments"];
  /** The same arguments from a later token on. */
  from(token: number): LaunchSpec["arguments"];
  /** The rows, in whichever form. */
  readonly results: readonly LaunchResult[];
}

export function writtenOutput(out: ValuePlace, handed: HandedInput | undefined): Written {
  const none = { out: 0, quantized: 0, scales: 0, sums: 0, halves: 0, row_scales: 0, out_stride: 0, half_stride: 0 };
  const { width, rows } = out;
  const written = (form: keyof typeof OUTPUTS, from: Written["from"], results: Written["results"]): Written => ({
    forms: [{ OUTPUT: OUTPUTS[form] }],
    formOf: () => 0,
    values: from(0),
    from,
    results,
  });
  const at = (place: MemoryPlace, bytes: number): MemoryPlace => shifted(place, bytes);
  switch (handed?.form) {
    case "quantized": {
      const from = (token: number): LaunchSpec["arguments"] => ({
        ...none,
        quantized: at(handed.values, token * width),
        scales: at(handed.scales, (token * width * FLOAT_BYTES) / 32),
        sums: at(handed.sums, (token * width * FLOAT_BYTES) / 16),
      });
      return written("quantized", from, quantizedResults(handed, rows, width));
    }
    case "panels":
    case "half": {
      const from = (token: number): LaunchSpec["arguments"] => ({
        ...none,
        halves: at(handed.halves, token * handed.stride * HALF_BYTES),
        row_scales: at(handed.rowScales, token * FLOAT_BYTES),
        half_stride: handed.stride,
      });
      return written(handed.form, from, halfResults(handed, rows));
    }
    case "slots": {
      const rowHalves = handed.slots * handed.stride;
      const from = (token: number): LaunchSpec["arguments"] => ({
        ...none,
        halves: at(handed.halves, token * rowHalves * HALF_BYTES),
        row_scales: at(handed.rowScales, token * handed.slots * FLOAT_BYTES),
        half_stride: rowHalves,
      });
      const slots = written("slots", from, halfResults(handed, rows, handed.slots));
      if (!handed.canBeWide) return slots;
      const chunks = handed.groupChunks === 1 ? {} : { GROUP_CHUNKS: handed.groupChunks };
      const forms = [{ OUTPUT: OUTPUTS.slots }, { OUTPUT: OUTPUTS.wide, ...chunks }];
      return { ...slots, forms, formOf: (size) => (handed.isWide(size) ? 1 : 0) };
    }
    case undefined:
    case "floats": {
      const { input: place, stride } = handed ?? { input: out.place, stride: out.stride };
      const from = (token: number): LaunchSpec["arguments"] => ({
        ...none,
        out: at(place, token * stride * FLOAT_BYTES),
        out_stride: stride,
      });
      return written("floats", from, [floatResult({ place, stride, rows }, width)]);
    }
    default:
      return handed satisfies never;
  }
}
