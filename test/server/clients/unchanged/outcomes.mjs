// Runs the scenarios of one client and prints what came of each (JSON). What a scenario throws is its outcome, so that one
// failure hides no other.

import { z } from "zod";

export const [, , url] = process.argv;
export const MODEL = "fable";
export const QUESTION = "Tell me about the fox and the king.";
/** What the request with a whole answer and the streamed one share, in each client's spelling. */
export const TOKENS = 30;
/** A stream that is aborted would be this long. */
export const LONG_TOKENS = 400;
/** Bounded, so that a model that knows no JSON gets to its end, in every subset of JSON Schema that clients send. */
export const Hero = z.object({ kind: z.enum(["fox", "king", "bird"]), brave: z.boolean() });
export const Place = z.object({ city: z.enum(["Oslo", "Rome"]) });

export function fits(schema, value) {
  return schema.safeParse(value).success;
}

/** Length of a vector, to four places. */
export function lengthOf(vector) {
  return Number(Math.hypot(...vector).toFixed(4));
}

/** The error that a promise ends with, as far as the tests look at it. */
export async function failureOf(promise) {
  try {
    return { value: await promise };
  } catch (error) {
    return {
      name: error.name,
      class: error.constructor.name,
      status: error.status ?? error.statusCode ?? error.status_code,
    };
  }
}

export async function tell(scenarios) {
  const told = {};
  for (const [name, scenario] of Object.entries(scenarios)) {
    try {
      told[name] = await scenario();
    } catch (error) {
      told[name] = {
        error: String(error?.stack ?? error),
        cause: String(error?.cause ?? ""),
        body: error?.responseBody,
      };
    }
  }
  console.log(JSON.stringify(told));
}
