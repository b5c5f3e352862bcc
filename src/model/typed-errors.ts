// Errors at the library's entry points.

import { typedError } from "../system-failure.js";

/** Runs `work`; converts errors of the operating system that no other part has explained. */
export async function typedErrors<Result>(place: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw typedError(place, error);
  }
}
