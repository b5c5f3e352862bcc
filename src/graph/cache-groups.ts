// Cache groups: the layers of a KV cache whose keys and values are needed equally long. Layers that queries see equally
// far back form a group, with blocks and a block table of its own, so that blocks of a sliding window can be released
// while full attention keeps its own.

import type { Operation } from "./operation.js";
import type { KvGroup, KvReach, KvShape } from "./program.js";

/** The place of a layer: its group, and its index among the layers of the group. */
export interface KvPlace {
  readonly group: number;
  readonly index: number;
}

/** The first position that a query at `position` sees. It never decreases from one position to the next. */
export function firstVisible({ window, chunk }: KvReach, position: number): number {
  const first = window === undefined ? 0 : position + 1 - window;
  return Math.max(0, first, chunk === undefined ? 0 : position - (position % chunk));
}

/** Maximum number of positions that a query sees, its own included; infinite without a limit. */
export function reachTokens({ window, chunk }: KvReach): number {
  return Math.min(window ?? Number.POSITIVE_INFINITY, chunk ?? Number.POSITIVE_INFINITY);
}

/** The groups of a cache, in order of their first layers. */
export function kvGroups({ groups, layers }: KvShape): readonly KvGroup[] {
  return groups ?? grouped(layers, () => ({}));
}

/** Where each layer is. */
export function kvPlaces(groups: readonly KvGroup[]): readonly KvPlace[] {
  const places: KvPlace[] = [];
  for (const [group, { layers }] of groups.entries())
    for (const [index, layer] of layers.entries()) places[layer] = { group, index };
  return places;
}

/**
 * The shape with the groups that follow from what attention reads. A reach of the whole context is none, and a layer
 * that several operations read is needed for as long as one of them sees it.
 */
export function withCacheGroups(shape: KvShape, operations: readonly Operation[], contextTokens: number): KvShape {
  const reaches = new Map<number, KvReach>();
  for (const operation of operations) {
    if (operation.kind !== "attention") continue;
    const own = limited(operation, contextTokens);
    const known = reaches.get(operation.layer);
    reaches.set(operation.layer, known === undefined ? own : joined(known, own));
  }
  const groups = grouped(shape.layers, (layer) => reaches.get(layer) ?? {});
  const isFull = groups.every((group) => reachTokens(group) === Number.POSITIVE_INFINITY);
  return isFull ? shape : { ...shape, groups };
}

function limited({ window, chunk }: KvReach, contextTokens: number): KvReach {
  return {
    ...(window === undefined || window >= contextTokens ? {} : { window }),
    ...(chunk === undefined || chunk >= contextTokens ? {} : { chunk }),
  };
}

/** The least reach that sees no less than either. */
function joined(left: KvReach, right: KvReach): KvReach {
  return {
    ...(left.window === undefined || right.window === undefined ? {} : { window: Math.max(left.window, right.window) }),
    ...(left.chunk === undefined || left.chunk !== right.chunk ? {} : { chunk: left.chunk }),
  };
}

function grouped(layers: number, reachOf: (layer: number) => KvReach): readonly KvGroup[] {
  const groups = new Map<string, KvGroup & { readonly layers: number[] }>();
  for (let layer = 0; layer < layers; layer++) {
    const reach = reachOf(layer);
    const key = `${reach.window} ${reach.chunk}`;
    const known = groups.get(key);
    if (known === undefined) groups.set(key, { ...reach, layers: [layer] });
    else known.layers.push(layer);
  }
  return [...groups.values()];
}
