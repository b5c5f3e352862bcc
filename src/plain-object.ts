// What JSON calls an object: neither null nor a list. For values that come from outside and may be anything.

export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `undefined` where the text is no JSON; JSON itself has no such value. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
