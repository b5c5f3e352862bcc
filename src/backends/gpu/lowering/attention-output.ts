// Where attention writes its result, and in which form: the defines and arguments of kernels/attention/output.h.

import type { LaunchSpec, MemoryPlace } from "./launch.js";
import type { ValuePlace } from "./context.js";
import type { MatmulInput } from "./inputs.js";
import { FLOAT_BYTES } from "./regions.js";
import { shifted } from "./scratch.js";

const OUTPUTS = { floats: 0, quantized: 1, half: 2 } as const;

export interface Written {
  readonly define: number;
  readonly values: LaunchSpec["arguments"];
  /** The same arguments from a later token on. */
  from(token: number): LaunchSpec["arguments"];
}

export function writtenOutput(out: ValuePlace, handed: MatmulInput | undefined): Written {
  const none = { out: 0, quantized: 0, scales: 0, sums: 0, halves: 0, row_scales: 0, out_stride: 0, half_stride: 0 };
  const { width } = out;
  const at = (place: MemoryPlace, bytes: number): MemoryPlace => shifted(place, bytes);
  switch (handed?.form) {
    case "quantized": {
      const from = (token: number): LaunchSpec["arguments"] => ({
        ...none,
        quantized: at(handed.values, token * width),
        scales: at(handed.scales, (token * width * FLOAT_BYTES) / 32),
        sums: at(handed.sums, (token * width * FLOAT_BYTES) / 16),
      });
      return { define: OUTPUTS.quantized, values: from(0), from };
    }
    case "half": {
      const from = (token: number): LaunchSpec["arguments"] => ({
        ...none,
        halves: at(handed.halves, token * handed.stride * 2),
        row_scales: at(handed.rowScales, token * FLOAT_BYTES),
        half_stride: handed.stride,
      });
      return { define: OUTPUTS.half, values: from(0), from };
    }
    case undefined:
    case "floats": {
      const { input: place, stride } = handed ?? { input: out.place, stride: out.stride };
      const from = (token: number): LaunchSpec["arguments"] => ({
        ...none,
        out: at(place, token * stride * FLOAT_BYTES),
        out_stride: stride,
      });
      return { define: OUTPUTS.floats, values: from(0), from };
    }
    default:
      return handed satisfies never;
  }
}
