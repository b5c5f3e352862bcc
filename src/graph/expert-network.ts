// Finds the feed-forward networks of experts in a program: runs of groups, from the norm or the router on to the sum with the
// residual, that a backend may compute together for small batches. The groups of a run stay what they are: they are its
// meaning, and what a backend computes otherwise. A run keeps what it reads in memory until its end, and its logits too.

import { type ExpertsSumGroup, type GatedExpertsGroup, matchExpertsSum, matchGatedExperts } from "./expert-fusion.js";
import type { Group } from "./fusion.js";
import { fusableNorm, otherOperand, residualOf, type ValueUses, type WeightedRmsNorm } from "./fusion-rules.js";
import type {
  GluOperation,
  GroupedMatmulOperation,
  MatmulOperation,
  Operation,
  RouteExpertsOperation,
  SumSlotsOperation,
  ValueId,
} from "./operation.js";
import type { Program } from "./program.js";

/** A dense network beside the experts, of the same input. */
export interface SharedExpert {
  readonly gate: MatmulOperation;
  readonly up: MatmulOperation;
  readonly activation: GluOperation;
  readonly down: MatmulOperation;
  /** Its result is multiplied by σ of this matmul's, which has one column. */
  readonly weight: MatmulOperation | undefined;
  readonly out: ValueId;
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
  /** The same run up to the sum over slots, for backends that cannot compute the shared expert's weight with the rest. */
  readonly core?: ExpertNetwork;
}

/** The networks of experts among the groups of a program, in order. */
export function findExpertNetworks(
  groups: readonly Group[],
  program: Program,
  uses: ValueUses,
): readonly ExpertNetwork[] {
  const networks: ExpertNetwork[] = [];
  for (let index = 0; index < groups.length;) {
    const network = matchNetwork(groups, index, program, uses);
    if (network !== undefined) networks.push(network);
    index += network?.groupCount ?? 1;
  }
  return networks;
}

/** Gate, up and activation of experts among the groups of a program, by the first group of each. */
export function findGatedExperts(
  groups: readonly Group[],
  program: Program,
  uses: ValueUses,
): ReadonlyMap<number, GatedExpertsGroup> {
  const found = new Map<number, GatedExpertsGroup>();
  const operations = groups.map((group) => (group.form === "single" ? group.operation : undefined));
  for (const [index, operation] of operations.entries()) {
    if (operation?.kind !== "grouped-matmul") continue;
    const rest = operations.slice(index, index + 3).filter((each) => each !== undefined);
    const gated = matchGatedExperts(rest, program, uses);
    if (gated !== undefined) found.set(index, gated);
  }
  return found;
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

  /** The group that the next operations are, if `match` finds one. */
  takeGroup<Found extends { readonly parts: readonly Operation[] }>(
    match: (operations: readonly Operation[]) => Found | undefined,
  ): Found | undefined {
    const found = match(this.#operations.slice(this.position));
    this.position += found?.parts.length ?? 0;
    return found;
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

/** Groups that a network can have: norm, router, choice, gate, up, activation, down, sum, seven of a shared expert, residual. */
const MAX_GROUPS = 16;

function matchNetwork(
  groups: readonly Group[],
  first: number,
  program: Program,
  uses: ValueUses,
): ExpertNetwork | undefined {
  const cursor = new OperationCursor(groups.slice(first, first + MAX_GROUPS));
  const norm = fusableNorm(cursor.take("rms-norm"), program);
  if (norm === undefined) cursor.position = 0;
  const router = norm === undefined ? undefined : cursor.take("matmul");
  const route = cursor.take("route-experts");
  const gated = cursor.takeGroup((operations) => matchGatedExperts(operations, program, uses));
  const summed = cursor.takeGroup((operations) => matchExpertsSum(operations, uses));
  if (!route || !gated || !summed || !isRouted(route, gated, summed, uses)) return undefined;
  if (norm !== undefined && !(router && isRouterOf(router, norm, route, gated, uses))) return undefined;
  const { matmul: down, sum } = summed;
  const { gate, up, activation } = gated;
  const parts = { norm, router, route, gate, up, activation, down, sum };
  const upTo = (tail: NetworkTail): ExpertNetwork | undefined => {
    const groupCount = cursor.groupCount;
    const normIsRead = norm !== undefined && !uses.isOnlyReadBy(norm.out, cursor.passed);
    return groupCount === undefined ? undefined : { firstGroup: first, groupCount, normIsRead, ...parts, ...tail };
  };
  const core = upTo({ shared: undefined, residual: undefined, out: sum.out });
  const tail = matchTail(cursor, summed, norm, uses);
  const whole = upTo(tail);
  return whole === undefined || core === undefined || tail.shared?.weight === undefined ? whole : { ...whole, core };
}

/** Whether the experts and their logits have the norm's result. */
function isRouterOf(
  router: MatmulOperation,
  norm: WeightedRmsNorm,
  route: RouteExpertsOperation,
  { gate }: GatedExpertsGroup,
  uses: ValueUses,
): boolean {
  const isOfNorm = router.input === norm.out && gate.input === norm.out && route.input === router.out;
  return isOfNorm && router.softCap === undefined && uses.rootOf(router.out) === router.out;
}

/** What follows the sum over slots: a residual, or a shared expert and a residual, or nothing of the network. */
type NetworkTail = Pick<ExpertNetwork, "shared" | "residual" | "out">;

function matchTail(
  cursor: OperationCursor,
  { sum, residual }: ExpertsSumGroup,
  norm: WeightedRmsNorm | undefined,
  uses: ValueUses,
): NetworkTail {
  if (residual !== undefined) return { shared: undefined, residual: residual.value, out: residual.add.out };
  const start = cursor.position;
  const tail = norm === undefined ? undefined : matchSharedTail(cursor, sum, norm, uses);
  if (tail === undefined) cursor.position = start;
  return tail ?? { shared: undefined, residual: undefined, out: sum.out };
}

function matchSharedTail(
  cursor: OperationCursor,
  sum: SumSlotsOperation,
  norm: WeightedRmsNorm,
  uses: ValueUses,
): NetworkTail | undefined {
  const shared = matchShared(cursor, norm.out, uses);
  const joined = cursor.take("add");
  const added = cursor.take("add");
  if (!shared || !joined || !added || otherOperand(joined, sum.out) !== shared.out) return undefined;
  if (![sum.out, shared.out].every((id) => uses.isOnlyReadBy(id, [joined]))) return undefined;
  const residual = residualOf(added, joined.out, uses);
  return residual === undefined ? undefined : { shared, residual, out: added.out };
}

function matchShared(cursor: OperationCursor, input: ValueId, uses: ValueUses): SharedExpert | undefined {
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
  if (!isGated || !isInside || !isPlain) return undefined;
  const weight = cursor.take("matmul");
  if (weight === undefined) return { gate, up, activation, down, weight, out: down.out };
  const weighing = cursor.take("glu");
  const isWeighed =
    weighing?.activation === "sigmoid" &&
    weighing.gate === weight.out &&
    weighing.up === down.out &&
    weight.input === input &&
    weight.softCap === undefined &&
    [weight.out, down.out].every((id) => uses.isOnlyReadBy(id, [weighing]));
  return isWeighed ? { gate, up, activation, down, weight, out: weighing.out } : undefined;
}

/** Whether the operations read each other's results as a network of experts does, and no other operation reads them. */
function isRouted(
  route: RouteExpertsOperation,
  { gate, up, activation }: GatedExpertsGroup,
  { matmul: down }: ExpertsSumGroup,
  uses: ValueUses,
): boolean {
  return (
    [gate, up, down].every(({ routing, slots }) => routing === route.out && slots === route.used) &&
    gate.inputStride === 0 &&
    down.input === activation.out &&
    down.inputStride === gate.outputs &&
    down.firstOutput === 0 &&
    down.outputs === down.matrixRows &&
    uses.isOnlyReadBy(route.out, [gate, up, down]) &&
    uses.isOnlyReadBy(activation.out, [down])
  );
}
