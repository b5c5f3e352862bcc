// Errors at the library's entry points.

import { typedError } from "../system-failure.js";

/** Runs `work`; an error of the operating system that no part has put into words becomes one of ours. */
export async function typedErrors<Result>(place: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw typedError(place, error);
  }
}
