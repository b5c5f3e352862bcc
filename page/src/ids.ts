// Random ids. `crypto.randomUUID` exists on https and localhost only, and this page is often opened by a machine's name.

const BYTES = 16;

/** A new random id of letters and digits. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(BYTES)), (byte) => byte.toString(16).padStart(2, "0")).join(
    "",
  );
}
