// Which operations of latent attention a backend may run as one: everything that makes a key from its latent and its
// rotated part and stores it, the rotation of queries with their joining, and both with the matmul between them.

import type {
  ConcatHeadsOperation,
  GroupedMatmulOperation,
  KvWriteOperation,
  Operation,
  RmsNormOperation,
  RopeOperation,
  ValueId,
} from "./operation.js";

/** A key of a normed latent vector and a rotated part, joined and stored. */
export interface LatentStoreGroup {
  readonly form: "latent-store";
  readonly norm: RmsNormOperation;
  readonly rope: RopeOperation;
  readonly concat: ConcatHeadsOperation;
  readonly store: KvWriteOperation;
  readonly parts: readonly Operation[];
}

/** Heads whose right part is rotated on the way. */
export interface RopeConcatGroup {
  readonly form: "rope-concat";
  readonly rope: RopeOperation;
  readonly concat: ConcatHeadsOperation;
  readonly parts: readonly Operation[];
}

/** A key that is stored, and queries of which a matmul makes the left part and a rotation by the same table the right one. */
export interface LatentQueryGroup {
  readonly form: "latent-query";
  readonly key: LatentStoreGroup;
  readonly matmul: GroupedMatmulOperation;
  readonly query: RopeConcatGroup;
  readonly parts: readonly Operation[];
}

type IsOnlyReadBy = (id: ValueId, readers: readonly Operation[]) => boolean;

export function matchLatentStore(
  [norm, rope, concat, store]: readonly Operation[],
  isOnlyReadBy: IsOnlyReadBy,
): LatentStoreGroup | undefined {
  if (norm?.kind !== "rms-norm" || rope?.kind !== "rope" || concat?.kind !== "concat-heads") return undefined;
  if (store?.kind !== "kv-write" || store.value !== undefined || store.key !== concat.out) return undefined;
  const isOneHead = concat.heads === 1 && rope.heads === 1 && concat.left === norm.out;
  const isWhole = norm.groupWidth === concat.leftWidth && rotatesRight(rope, concat);
  const isInner =
    isOnlyReadBy(norm.out, [concat]) && isOnlyReadBy(rope.out, [concat]) && isOnlyReadBy(concat.out, [store]);
  if (!isOneHead || !isWhole || !isInner) return undefined;
  return { form: "latent-store", norm, rope, concat, store, parts: [norm, rope, concat, store] };
}

export function matchRopeConcat(
  [rope, concat]: readonly Operation[],
  isOnlyReadBy: IsOnlyReadBy,
): RopeConcatGroup | undefined {
  if (rope?.kind !== "rope" || concat?.kind !== "concat-heads" || concat.left === rope.out) return undefined;
  if (!rotatesRight(rope, concat) || !isOnlyReadBy(rope.out, [concat])) return undefined;
  return { form: "rope-concat", rope, concat, parts: [rope, concat] };
}

export function matchLatentQuery(
  operations: readonly Operation[],
  isOnlyReadBy: IsOnlyReadBy,
): LatentQueryGroup | undefined {
  const key = matchLatentStore(operations, isOnlyReadBy);
  if (key === undefined) return undefined;
  const matmul = operations.at(key.parts.length);
  const query = matchRopeConcat(operations.slice(key.parts.length + 1), isOnlyReadBy);
  if (matmul?.kind !== "grouped-matmul" || matmul.routing !== undefined || query === undefined) return undefined;
  const { rope, concat } = query;
  const isLeft =
    concat.left === matmul.out &&
    isOnlyReadBy(matmul.out, [concat]) &&
    matmul.outputs === concat.leftWidth &&
    concat.leftWidth === key.concat.leftWidth;
  const isOfHeads =
    rope.input === matmul.input && matmul.slots === concat.heads && matmul.inputStride === concat.rightStride;
  const isOneTable = (["rope", "style", "rotaryWidth", "factors"] as const).every(
    (field) => rope[field] === key.rope[field],
  );
  if (!isLeft || !isOfHeads || !isOneTable) return undefined;
  return { form: "latent-query", key, matmul, query, parts: [...key.parts, matmul, ...query.parts] };
}

/** Whether the columns that are rotated are those that go to the right. */
function rotatesRight(rope: RopeOperation, concat: ConcatHeadsOperation): boolean {
  const isSameHead = concat.rightStride === rope.headWidth || (concat.rightStride === 0 && rope.heads === 1);
  return (
    concat.right === rope.out &&
    isSameHead &&
    (rope.firstColumn ?? 0) === concat.rightOffset &&
    rope.rotaryWidth === concat.rightWidth
  );
}
