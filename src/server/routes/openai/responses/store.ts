// Responses stored in memory for later requests: by id for GET and previous_response_id, and their items by id for
// item_reference. Invariants: count, bytes and age are bounded, and the least recently used response is evicted first; a
// response holds its whole conversation, so evicting one does not break others; API keys cannot see each other's responses.

import { LruCache } from "../../../../lru.js";
import { makeId } from "../../../completion/response-head.js";
import { LONGEST_TIMER_MS, type ServerLimits } from "../../../http/limits.js";
import type { Item } from "./items.js";

/** A response with its conversation. */
export interface StoredResponse {
  readonly id: string;
  /** The response object as it was sent. */
  readonly response: object;
  /** The whole input except the instructions, oldest first; each item has an id. */
  readonly input: readonly Item[];
  readonly output: readonly Item[];
}

interface Entry extends StoredResponse {
  readonly owner: string;
  readonly sizeBytes: number;
  readonly expiresMs: number;
}

interface IndexedItem {
  readonly item: Item;
  /** Number of entries that contain it. */
  uses: number;
}

/** The limits of the store. */
export type StoreLimits = Pick<ServerLimits, "storedResponses" | "storedResponseBytes" | "storedResponseMs">;

/** Memory of an item besides its text: the object and its index entry. */
const ITEM_OVERHEAD_BYTES = 1024;
/** Prefixes of ids, by the kind of the item. */
const ID_PREFIXES = {
  message: "msg_",
  reasoning: "rs_",
  function_call: "fc_",
  function_call_output: "fco_",
} as const satisfies Record<Item["type"], string>;

/** The item with its own id, or with a new one. */
export function withId(item: Item): Item {
  return typeof item.id === "string" && item.id !== "" ? item : { ...item, id: makeId(ID_PREFIXES[item.type]) };
}

/** Stores responses in memory. */
export class ResponseStore implements Disposable {
  readonly #limits: StoreLimits;
  readonly #now: () => number;
  readonly #entries: LruCache<string, Entry>;
  readonly #items = new Map<string, IndexedItem>();
  /** No entry expires before this time. */
  #nextExpiryMs = Infinity;
  #timer: NodeJS.Timeout | undefined;

  constructor(limits: StoreLimits, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
    this.#entries = new LruCache({
      maxEntries: limits.storedResponses,
      maxWeight: limits.storedResponseBytes,
      weightOf: ({ sizeBytes }) => sizeBytes,
      onRemove: ({ owner, input, output }) => {
        for (const item of [...input, ...output]) this.#forget(owner, item);
      },
    });
  }

  get count(): number {
    return this.#entries.size;
  }

  /** Conversations are counted once for each of their responses. */
  get sizeBytes(): number {
    return this.#entries.weight;
  }

  /** Does not store a response that exceeds the byte limit on its own. */
  put(owner: string, { id, response, input, output }: StoredResponse): void {
    const { storedResponses, storedResponseBytes, storedResponseMs } = this.#limits;
    const sizeBytes =
      sizeOf(response) + sizeOf(input) + sizeOf(output) + (input.length + output.length) * ITEM_OVERHEAD_BYTES;
    if (storedResponses === 0 || sizeBytes > storedResponseBytes) return;
    this.#dropExpired();
    const entry: Entry = { id, response, input, output, owner, sizeBytes, expiresMs: this.#now() + storedResponseMs };
    this.#entries.set(id, entry);
    this.#nextExpiryMs = Math.min(this.#nextExpiryMs, entry.expiresMs);
    for (const item of [...input, ...output]) this.#index(owner, item);
    this.#schedule();
  }

  get(owner: string, id: string): StoredResponse | undefined {
    this.#dropExpired();
    return this.#entries.peek(id)?.owner === owner ? this.#entries.get(id) : undefined;
  }

  item(owner: string, id: string): Item | undefined {
    this.#dropExpired();
    return this.#items.get(keyOf(owner, id))?.item;
  }

  delete(owner: string, id: string): boolean {
    return this.#entries.peek(id)?.owner === owner && this.#entries.delete(id);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#entries.clear();
  }

  #index(owner: string, item: Item): void {
    const key = keyOf(owner, item.id ?? "");
    const known = this.#items.get(key);
    if (known === undefined) this.#items.set(key, { item, uses: 1 });
    else known.uses++;
  }

  #forget(owner: string, item: Item): void {
    const key = keyOf(owner, item.id ?? "");
    const known = this.#items.get(key);
    if (known !== undefined && --known.uses === 0) this.#items.delete(key);
  }

  /** Entries are in order of use, not of age, so all are checked, but only when one has expired. */
  #dropExpired(): void {
    const now = this.#now();
    if (now < this.#nextExpiryMs) return;
    this.#nextExpiryMs = Infinity;
    for (const entry of this.#entries.values()) {
      if (entry.expiresMs <= now) this.#entries.delete(entry.id);
      else this.#nextExpiryMs = Math.min(this.#nextExpiryMs, entry.expiresMs);
    }
  }

  /** Evicts expired entries even if there are no further requests. */
  #schedule(): void {
    if (this.#timer !== undefined || this.#entries.size === 0) return;
    const wake = (): void => {
      this.#timer = undefined;
      this.#dropExpired();
      this.#schedule();
    };
    this.#timer = setTimeout(wake, Math.min(LONGEST_TIMER_MS, Math.max(1, this.#nextExpiryMs - this.#now()))).unref();
  }
}

/** Strings take up to two bytes per character. */
function sizeOf(value: object): number {
  return JSON.stringify(value).length * 2;
}

/** Owners are hexadecimal digests, so the space is unambiguous. */
function keyOf(owner: string, id: string): string {
  return `${owner} ${id}`;
}
