// The distinct items of an Earley set while it is being completed.

import { GrammarError } from "../../errors.js";
import { GRAMMAR_LIMITS } from "../limits.js";
import type { EarleyItem, EarleySet } from "./earley-set.js";

/** More than any count; lengths from here on are unlimited. */
export const COUNTS = 2 ** 21;
/** More than any state. */
export const STATES = GRAMMAR_LIMITS.networkStates + 1;
/** Up to this many items are compared one by one, which is faster than hashing them, and leaves no garbage. */
const FEW_ITEMS = 12;

/** A list of items without duplicates; items may be added while it is read. */
export class ItemList {
  readonly #items: EarleyItem[] = [];
  readonly #keys = new Set<number>();
  readonly #origins = new Map<EarleySet | undefined, number>();

  get length(): number {
    return this.#items.length;
  }

  at(index: number): EarleyItem {
    return this.#items[index] as EarleyItem;
  }

  clear(): void {
    if (this.#items.length > FEW_ITEMS) {
      this.#keys.clear();
      this.#origins.clear();
    }
    this.#items.length = 0;
  }

  /** Adds an item, unless it is in the list. Refuses to exceed the limit of active items. */
  add(state: number, origin: EarleySet | undefined, count: number): void {
    const items = this.#items;
    if (items.length <= FEW_ITEMS) {
      for (const item of items) if (item.state === state && item.origin === origin && item.count === count) return;
      items.push({ state, origin, count });
      if (items.length > FEW_ITEMS) for (const item of items) this.#keys.add(this.#key(item));
      return;
    }
    const item = { state, origin, count };
    const key = this.#key(item);
    if (this.#keys.has(key)) return;
    this.#keys.add(key);
    if (items.push(item) > GRAMMAR_LIMITS.activeItems) throw tooAmbiguous();
  }

  #key({ state, origin, count }: EarleyItem): number {
    let place = this.#origins.get(origin);
    if (place === undefined) this.#origins.set(origin, (place = this.#origins.size));
    return (place * COUNTS + count) * STATES + state;
  }
}

function tooAmbiguous(): GrammarError {
  const most = GRAMMAR_LIMITS.activeItems;
  return new GrammarError(
    "GRAMMAR_LIMIT",
    `[grammar] expected a grammar with up to ${most} rules active at one place, found more; make it less ambiguous`,
    {
      details: { limit: "activeItems", most },
    },
  );
}
