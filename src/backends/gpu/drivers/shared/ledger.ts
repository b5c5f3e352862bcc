// Handles that a device has created and not freed yet: to the library they are plain numbers, and a wrong or repeated
// one crashes the process, so only handles that are recorded here are passed back to it.

/** In the order in which they are freed: dependents first. */
const HANDLE_KINDS = ["graph", "module", "event", "stream", "buffer", "pinned memory", "registered memory"] as const;
/** Kinds of handles that a device creates. */
export type HandleKind = (typeof HANDLE_KINDS)[number];

/** Open handles of one device, by kind. */
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

  /** Removes a handle; throws if it was freed before or never belonged to this device. */
  take(kind: HandleKind, handle: bigint): void {
    if (!this.#handles[kind].delete(handle))
      throw new TypeError(
        `this device has no ${kind} 0x${handle.toString(16)}: it was already freed, or belongs to another device`,
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
