// Which norms and rotations of heads a backend may run together with the write to the KV cache: those that stand right
// before it and concern its keys, its values or the queries that attend to them.

import type { KvWriteOperation, Operation, RmsNormOperation, RopeOperation, ValueId } from "./operation.js";
import { inputsOf, outputOf } from "./operation.js";
import type { KvLayerShape } from "./program.js";

/** What happens to heads of queries or keys: a norm of each head, a rotation, or both. */
export interface HeadPreparation {
  readonly input: ValueId;
  readonly out: ValueId;
  readonly norm: RmsNormOperation | undefined;
  readonly rope: RopeOperation | undefined;
}

/** Queries and keys normed and rotated alike, values normed, and keys and values stored. */
export interface HeadStoreGroup {
  readonly form: "head-store";
  /** Undefined if nothing happens to the queries. */
  readonly query: HeadPreparation | undefined;
  readonly key: HeadPreparation;
  readonly value: { readonly input: ValueId; readonly norm: RmsNormOperation | undefined };
  /** Whether norms come before rotations; either if one of them is absent. */
  readonly normFirst: boolean;
  readonly store: KvWriteOperation & { readonly value: ValueId };
  readonly parts: readonly Operation[];
}

/** Norms of queries, keys and values, and rotations of queries and keys. */
const MOST_PREPARATIONS = 5;

type PreparingOperation = RmsNormOperation | RopeOperation;

/** What a match needs to know of a program. */
export interface HeadStoreContext {
  readonly layers: readonly KvLayerShape[];
  /** Whether a value has no readers but these operations. */
  readonly isOnlyReadBy: (id: ValueId, readers: readonly Operation[]) => boolean;
  /** The value that holds the memory of this one: itself, or the base of a view. */
  readonly rootOf: (id: ValueId) => ValueId;
}

/** The group that the first of these operations begins, if it begins one. */
export function matchHeadStore(
  operations: readonly Operation[],
  { layers, isOnlyReadBy, rootOf }: HeadStoreContext,
): HeadStoreGroup | undefined {
  const preparing: PreparingOperation[] = [];
  for (const operation of operations.slice(0, MOST_PREPARATIONS)) {
    if (operation.kind !== "rms-norm" && operation.kind !== "rope") break;
    preparing.push(operation);
  }
  const store = operations.at(preparing.length);
  if (store?.kind !== "kv-write" || store.value === undefined) return undefined;
  const widths = layers[store.layer];

  const key = chainTo(store.key, preparing);
  const value = store.value === store.key ? [] : chainTo(store.value, preparing);
  const rest = preparing.filter((operation) => !key.includes(operation) && !value.includes(operation));
  const query = rest.length === 0 ? [] : chainTo(rest[rest.length - 1].out, rest);
  const inner = [...key, ...value].map((operation) => operation.out);
  const made = new Set(preparing.map(({ out }) => out));
  const seesMade = (id: ValueId): boolean => rootOf(id) !== id && made.has(rootOf(id));
  const isWhole =
    ![...preparing, store].flatMap((operation) => inputsOf(operation)).some(seesMade) &&
    key.length + value.length + query.length === preparing.length &&
    inner.every((id) => isOnlyReadBy(id, [...preparing, store])) &&
    query.slice(0, -1).every((operation) => isOnlyReadBy(operation.out, preparing)) &&
    // Kernels read all of their inputs where these lie before the group.
    [...key, ...value].every((operation) => !inputsOf(operation).includes(query.at(-1)?.out ?? -1));
  const [queryPart, keyPart] = [query, key].map((chain) => preparationOf(chain, store.key, widths.keyWidth));
  const valueNorm = value.at(0);
  if (!isWhole || keyPart === undefined || value.length > 1 || valueNorm?.kind === "rope") return undefined;
  if (valueNorm?.weight !== undefined || (valueNorm !== undefined && valueNorm.groupWidth !== widths.valueWidth))
    return undefined;
  if (query.length > 0 && (queryPart === undefined || !areAlike(queryPart, keyPart, query, key))) return undefined;
  if (query.length === 0 && key.length > 0) return undefined;
  return {
    form: "head-store",
    query: query.length === 0 ? undefined : queryPart,
    key: keyPart,
    value: { input: valueNorm?.input ?? store.value, norm: valueNorm },
    normFirst: key.at(0)?.kind !== "rope",
    store: { ...store, value: store.value },
    parts: [...preparing, store],
  };
}

/** The operations that make a value, each of the result of the one before. */
function chainTo(id: ValueId, operations: readonly PreparingOperation[]): readonly PreparingOperation[] {
  const last = operations.findLast((operation) => outputOf(operation) === id);
  return last === undefined ? [] : [...chainTo(last.input, operations), last];
}

/** Undefined if the operations are not one norm of each head and one rotation at most. */
function preparationOf(
  chain: readonly PreparingOperation[],
  otherwise: ValueId,
  width: number,
): HeadPreparation | undefined {
  const norms = chain.filter((operation) => operation.kind === "rms-norm");
  const ropes = chain.filter((operation) => operation.kind === "rope");
  const concernsHeads =
    norms.every(({ groupWidth, rowWeights = false }) => groupWidth === width && !rowWeights) &&
    ropes.every(({ headWidth }) => headWidth === width);
  if (norms.length > 1 || ropes.length > 1 || !concernsHeads) return undefined;
  return {
    input: chain.at(0)?.input ?? otherwise,
    out: chain.at(-1)?.out ?? otherwise,
    norm: norms.at(0),
    rope: ropes.at(0),
  };
}

/** Whether one kernel can prepare both, with one table of angles and norms at the same place. */
function areAlike(
  query: HeadPreparation,
  key: HeadPreparation,
  queryChain: readonly PreparingOperation[],
  keyChain: readonly PreparingOperation[],
): boolean {
  const fields = ["headWidth", "rotaryWidth", "firstColumn", "style", "rope", "factors"] as const;
  const kinds = (chain: readonly PreparingOperation[]): string => chain.map(({ kind }) => kind).join(" ");
  return (
    kinds(queryChain) === kinds(keyChain) &&
    fields.every((field) => query.rope?.[field] === key.rope?.[field]) &&
    query.norm?.epsilon === key.norm?.epsilon
  );
}
