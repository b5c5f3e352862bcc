// Finds the feed-forward networks of experts in a program: runs of groups, from the norm or the router on to the sum with the
// residual, that a backend may compute together for small batches. The groups of a run stay what they are: they are its
// meaning, and what a backend computes otherwise. A run keeps what it reads in memory until its end, and its logits too.

import {
  type AddOperation,
  type GluOperation,
  type GroupedMatmulOperation,
  type MatmulOperation,
  type Operation,
  outputOf,
  type RouteExpertsOperation,
  type SumSlotsOperation,
  type ValueId,
} from "./operation.js";
import type { Group, WeightedRmsNorm } from "./fusion.js";
import type { Value } from "./program.js";

/** A dense network beside the experts, of the same input. */
export interface SharedExpert {
  readonly gate: MatmulOperation;
  readonly up: MatmulOperation;
  readonly activation: GluOperation;
  readonly down: MatmulOperation;
}

/** A run of groups that is a network of experts: `sum` of activation(gate) × up through `down`, with what is around it. */
export interface ExpertNetwork {
  /** The run's groups: `groupCount` of them from this one on. */
  readonly firstGroup: number;
  readonly groupCount: number;
  /** The norm of the experts' input, if it is part of the run; the router reads its result too. */
  readonly norm: WeightedRmsNorm | undefined;
  /** Whether operations outside of the run read the norm's result. */
  readonly normIsRead: boolean;
  /** Makes the logits, if the norm is part of the run. */
  readonly router: MatmulOperation | undefined;
  readonly route: RouteExpertsOperation;
  readonly gate: GroupedMatmulOperation;
  readonly up: GroupedMatmulOperation;
  readonly activation: GluOperation;
  readonly down: GroupedMatmulOperation;
  readonly sum: SumSlotsOperation;
  /** Only in a run with a norm. */
  readonly shared: SharedExpert | undefined;
  /** A value that is added to the result. */
  readonly residual: ValueId | undefined;
  /** The result of the run's last operation. */
  readonly out: ValueId;
}

/** What the matching asks of the whole program. */
export interface ExpertUses {
  rootOf(id: ValueId): ValueId;
  isOnlyReadBy(id: ValueId, readers: readonly Operation[]): boolean;
}

/** The networks of experts among the groups of a program, in order. */
export function findExpertNetworks(
  groups: readonly Group[],
  values: readonly Value[],
  uses: ExpertUses,
): readonly ExpertNetwork[] {
  const networks: ExpertNetwork[] = [];
  for (let index = 0; index < groups.length;) {
    const network = matchNetwork(groups, index, values, uses);
    if (network !== undefined) networks.push(network);
    index += network?.groupCount ?? 1;
  }
  return networks;
}

/** The values that a network reads until its end, whose memory its result must not take. */
export function networkInputs({ norm, route, gate, shared, residual }: ExpertNetwork): readonly ValueId[] {
  const others = [residual, shared?.activation.out].filter((id) => id !== undefined);
  return [norm?.input ?? gate.input, route.input, ...others];
}

/** Goes through the operations of groups, and knows how many whole groups it has left behind. */
class OperationCursor {
  readonly #operations: readonly Operation[];
  readonly #ends: readonly number[];
  position = 0;

  constructor(groups: readonly Group[]) {
    this.#operations = groups.flatMap(({ parts }) => parts);
    let end = 0;
    this.#ends = groups.map(({ parts }) => (end += parts.length));
  }

  /** The next operation, if it is of this kind. */
  take<Kind extends Operation["kind"]>(kind: Kind): Extract<Operation, { readonly kind: Kind }> | undefined {
    const operation = this.#operations.at(this.position);
    if (operation?.kind !== kind) return undefined;
    this.position++;
    return operation as Extract<Operation, { readonly kind: Kind }>;
  }

  /** Groups up to this position; undefined in the middle of one. */
  get groupCount(): number | undefined {
    const index = this.#ends.indexOf(this.position);
    return index === -1 ? undefined : index + 1;
  }

  /** Operations before this position. */
  get passed(): readonly Operation[] {
    return this.#operations.slice(0, this.position);
  }
}

/** Groups that a network can have: norm, router, choice, gate, up, activation, down, sum, five of a shared expert, residual. */
const MAX_GROUPS = 14;

function matchNetwork(
  groups: readonly Group[],
  first: number,
  values: readonly Value[],
  uses: ExpertUses,
): ExpertNetwork | undefined {
  const cursor = new OperationCursor(groups.slice(first, first + MAX_GROUPS));
  const norm = weighted(cursor.take("rms-norm"), values);
  const router = norm === undefined ? undefined : cursor.take("matmul");
  const route = cursor.take("route-experts");
  const gate = cursor.take("grouped-matmul");
  const up = cursor.take("grouped-matmul");
  const activation = cursor.take("glu");
  const down = cursor.take("grouped-matmul");
  const sum = cursor.take("sum-slots");
  if (!route || !gate || !up || !activation || !down || !sum) return undefined;
  if (norm !== undefined && router === undefined) return undefined;
  const core = { route, gate, up, activation, down, sum };
  if (!isRouted(core) || !isInner(core, uses)) return undefined;
  if (router !== undefined && (router.input !== norm?.out || gate.input !== norm.out || route.input !== router.out))
    return undefined;
  if (router !== undefined && (router.softCap !== undefined || uses.rootOf(router.out) !== router.out))
    return undefined;
  const summed: NetworkTail = { position: cursor.position, out: sum.out };
  const tail = matchTail(cursor, sum, norm, uses) ?? summed;
  cursor.position = tail.position;
  const groupCount = cursor.groupCount;
  if (groupCount === undefined) return undefined;
  const { shared, residual, out } = tail;
  const normIsRead = norm !== undefined && !uses.isOnlyReadBy(norm.out, cursor.passed);
  return { firstGroup: first, groupCount, norm, normIsRead, router, ...core, shared, residual, out };
}

/** What follows the sum over slots: a shared expert, a residual, or both. */
interface NetworkTail {
  readonly position: number;
  readonly shared?: SharedExpert;
  readonly residual?: ValueId;
  readonly out: ValueId;
}

function matchTail(
  cursor: OperationCursor,
  sum: SumSlotsOperation,
  norm: WeightedRmsNorm | undefined,
  uses: ExpertUses,
): NetworkTail | undefined {
  const start = cursor.position;
  const shared = norm === undefined ? undefined : matchShared(cursor, norm.out, uses);
  const withShared = shared === undefined ? undefined : cursor.take("add");
  let result = sum.out;
  if (shared !== undefined) {
    if (withShared === undefined || otherOperand(withShared, sum.out) !== shared.down.out) return undefined;
    if (![sum.out, shared.down.out].every((id) => uses.isOnlyReadBy(id, [withShared]))) return undefined;
    result = withShared.out;
  } else {
    cursor.position = start;
  }
  const added = cursor.take("add");
  const residual = added === undefined ? undefined : otherOperand(added, result);
  const joins = added !== undefined && residual !== undefined && uses.isOnlyReadBy(result, [added]);
  if (joins && uses.rootOf(residual) !== result)
    return { position: cursor.position, ...(shared === undefined ? {} : { shared }), residual, out: added.out };
  return undefined;
}

/** The other operand of a sum of which one is known. */
function otherOperand({ left, right }: AddOperation, known: ValueId): ValueId | undefined {
  if (left === right) return undefined;
  return left === known ? right : right === known ? left : undefined;
}

function matchShared(cursor: OperationCursor, input: ValueId, uses: ExpertUses): SharedExpert | undefined {
  const gate = cursor.take("matmul");
  const up = cursor.take("matmul");
  const activation = cursor.take("glu");
  const down = cursor.take("matmul");
  if (!gate || !up || !activation || !down) return undefined;
  const isGated =
    gate.input === input &&
    up.input === input &&
    activation.gate === gate.out &&
    activation.up === up.out &&
    down.input === activation.out;
  const isInside =
    [gate.out, up.out].every((id) => uses.isOnlyReadBy(id, [activation])) && uses.isOnlyReadBy(activation.out, [down]);
  const isPlain = [gate, up, down].every(({ softCap }) => softCap === undefined);
  return isGated && isInside && isPlain ? { gate, up, activation, down } : undefined;
}

type Core = Pick<ExpertNetwork, "route" | "gate" | "up" | "activation" | "down" | "sum">;

/** Whether the operations read each other's results as a network of experts does. */
function isRouted({ route, gate, up, activation, down, sum }: Core): boolean {
  return (
    [gate, up, down].every(({ routing, slots }) => routing === route.out && slots === route.used) &&
    gate.input === up.input &&
    gate.inputStride === 0 &&
    up.inputStride === 0 &&
    gate.outputs === up.outputs &&
    gate.weighted === up.weighted &&
    activation.gate === gate.out &&
    activation.up === up.out &&
    down.input === activation.out &&
    down.inputStride === gate.outputs &&
    down.firstOutput === 0 &&
    down.outputs === down.matrixRows &&
    sum.input === down.out &&
    sum.slots === route.used
  );
}

/** Whether no other operation reads what lies between the logits and the sum. */
function isInner({ route, gate, up, activation, down, sum }: Core, uses: ExpertUses): boolean {
  const readers: readonly (readonly [Operation, readonly Operation[]])[] = [
    [route, [gate, up, down]],
    [gate, [activation]],
    [up, [activation]],
    [activation, [down]],
    [down, [sum]],
  ];
  return readers.every(([operation, allowed]) => uses.isOnlyReadBy(outputOf(operation) ?? -1, allowed));
}

/** A norm of whole rows with a weight. */
function weighted(
  operation: Extract<Operation, { readonly kind: "rms-norm" }> | undefined,
  values: readonly Value[],
): WeightedRmsNorm | undefined {
  if (operation?.weight === undefined || operation.groupWidth !== values[operation.input].width) return undefined;
  return { ...operation, weight: operation.weight };
}
