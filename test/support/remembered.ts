// Functions of plain data that are called again and again with the same arguments, as cases of tests are by every backend.

import { serialize } from "node:v8";

/** `make`, called once for each list of arguments; callers share the result and do not change it. */
export function remembered<Arguments extends readonly unknown[], Result>(
  make: (...args: Arguments) => Result,
): (...args: Arguments) => Result {
  const made = new Map<string, Result>();
  return (...args) => {
    const key = serialize(args).toString("latin1");
    const known = made.get(key);
    if (known !== undefined) return known;
    const result = make(...args);
    made.set(key, result);
    return result;
  };
}
