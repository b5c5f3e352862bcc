// What a start consists of, for developers: each part is published on a diagnostics channel, with its times from the
// start of the process. Costs nothing without a subscriber; scripts/trace-start.mjs is one and prints them.

import { channel } from "node:diagnostics_channel";

/** A part of a start, in milliseconds from the start of the process. */
export interface StartPart {
  readonly what: string;
  readonly startMs: number;
  readonly endMs: number;
}

const parts = channel("rocmforge.start");

/** Runs work that is part of a start. */
export function traced<Result>(what: string, work: () => Result): Result {
  if (!parts.hasSubscribers) return work();
  const startMs = performance.now();
  try {
    return work();
  } finally {
    publish(what, startMs);
  }
}

/** The same for work that goes on while this thread does something else. */
export async function tracedAsync<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
  if (!parts.hasSubscribers) return await work();
  const startMs = performance.now();
  try {
    return await work();
  } finally {
    publish(what, startMs);
  }
}

function publish(what: string, startMs: number): void {
  parts.publish({ what, startMs, endMs: performance.now() } satisfies StartPart);
}
