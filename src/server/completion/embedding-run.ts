// Vectors of several inputs, a few at a time, within the time limit of a request.

import type { ModelEngine } from "../../engine/serving.js";
import type { ServerLimits } from "../http/limits.js";
import { refuseField, RequestError } from "../http/request-error.js";
import type { InFlightRequest } from "../http/request-tracker.js";
import { mapConcurrently, untilQueueHasRoom } from "./concurrency.js";

const RETRY_AFTER_MS = 10_000;

/** What is embedded. */
interface EmbeddingTask {
  readonly inputs: readonly Int32Array[];
  /** The width that the request asks for; only the model's own is accepted. */
  readonly dimensions: number | undefined;
}

/** A vector for each input. Fails as a whole at the time limit: there is no part of the response that could be sent. */
export async function embedAll(
  { timeLimitMs }: ServerLimits,
  inFlight: InFlightRequest,
  model: ModelEngine,
  { inputs, dimensions }: EmbeddingTask,
): Promise<readonly Float32Array[]> {
  const { signal } = inFlight;
  const deadlineMs = performance.now() + timeLimitMs;
  const timer = setTimeout(() => inFlight.cancel(timeIsUp(timeLimitMs)), timeLimitMs);
  try {
    return await mapConcurrently(inFlight, inputs, async (tokens, index) => {
      const retry = { mayRetry: () => index > 0, signal, deadlineMs };
      const vector = await untilQueueHasRoom(() => model.embed(tokens, signal), retry);
      if (dimensions !== undefined && dimensions !== vector.length)
        refuseField("dimensions", `${vector.length}, as this model has`, String(dimensions));
      return vector;
    });
  } finally {
    clearTimeout(timer);
  }
}

function timeIsUp(timeLimitMs: number): RequestError {
  return new RequestError(
    `[input] embedding took longer than the time limit of ${timeLimitMs} ms; send fewer or shorter inputs at once, or try later`,
    {
      status: 503,
      code: "time_limit_exceeded",
      param: "input",
      retryAfterMs: RETRY_AFTER_MS,
    },
  );
}
