// What a device has handed out and not got back: to the library handles are bare numbers, and a wrong or repeated one
// ends the process, so nothing goes back to it that is not written here.

/** In the order in which they are given back: users before what they use. */
const HANDLE_KINDS = ["graph", "module", "event", "stream", "buffer", "pinned memory", "registered memory"] as const;
export type HandleKind = (typeof HANDLE_KINDS)[number];

export class Ledger {
  readonly #handles: Readonly<Record<HandleKind, Set<bigint>>> = {
    graph: new Set(),
    module: new Set(),
    event: new Set(),
    stream: new Set(),
    buffer: new Set(),
    "pinned memory": new Set(),
    "registered memory": new Set(),
  };

  add(kind: HandleKind, handle: bigint): void {
    this.#handles[kind].add(handle);
  }

  /** Strikes it out; a handle that is not there was given back before or never came from this device. */
  take(kind: HandleKind, handle: bigint): void {
    if (!this.#handles[kind].delete(handle))
      throw new TypeError(
        `this device has no ${kind} 0x${handle.toString(16)}: it was given back before, or is another device's`,
      );
  }

  has(kind: HandleKind, handle: bigint): boolean {
    return this.#handles[kind].has(handle);
  }

  of(kind: HandleKind): readonly bigint[] {
    return [...this.#handles[kind]];
  }

  clear(): void {
    for (const kind of HANDLE_KINDS) this.#handles[kind].clear();
  }
}
