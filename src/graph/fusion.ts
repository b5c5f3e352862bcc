// Which neighbouring operations a backend may run as one. A group carries its plain operations: they are its meaning,
// the fallback of a backend that does not know its form, and the oracle it is tested against.
// Groups never cross a segment, so loading layer by layer stays possible. Values inside a group have no memory.

import { accessOf, type MemoryAccess, type MemoryPlan, planMemory } from "./memory-plan.js";
import {
  type AddOperation,
  inputsOf,
  type KvWriteOperation,
  type LinearOperation,
  type Operation,
  outputOf,
  type RmsNormOperation,
  type RopeOperation,
  type SwigluOperation,
  type ValueId,
} from "./operation.js";
import type { Program } from "./program.js";

/** Products of one input, which is normed first where there is a norm that nobody else reads. */
export interface ProjectGroup {
  readonly form: "project";
  readonly norm: RmsNormOperation | undefined;
  readonly products: readonly LinearOperation[];
  readonly parts: readonly Operation[];
}

/** silu(gate) × up of one input. */
export interface GatedGroup {
  readonly form: "gated";
  readonly norm: RmsNormOperation | undefined;
  readonly gate: LinearOperation;
  readonly up: LinearOperation;
  readonly activation: SwigluOperation;
  readonly parts: readonly Operation[];
}

/** A product and the residual it is added to. */
export interface ProjectAddGroup {
  readonly form: "project-add";
  readonly product: LinearOperation;
  readonly residual: ValueId;
  readonly sum: AddOperation;
  readonly parts: readonly Operation[];
}

/** Queries and keys turned alike, and the keys stored with their values. */
export interface RotateStoreGroup {
  readonly form: "rotate-store";
  readonly query: RopeOperation;
  readonly key: RopeOperation;
  readonly store: KvWriteOperation;
  readonly parts: readonly Operation[];
}

export interface SingleGroup {
  readonly form: "single";
  readonly operation: Operation;
  readonly parts: readonly Operation[];
}

export type Group = ProjectGroup | GatedGroup | ProjectAddGroup | RotateStoreGroup | SingleGroup;

export interface FusedProgram {
  readonly program: Program;
  readonly groups: readonly Group[];
  /** Of the values that groups hand to each other. */
  readonly memory: MemoryPlan;
}

export function fuse(program: Program): FusedProgram {
  const uses = new ValueUses(program);
  const groups = program.segments.flatMap(({ firstOperation, operationCount }) =>
    groupRun(program.operations.slice(firstOperation, firstOperation + operationCount), program, uses),
  );
  const kept = program.logits === undefined ? [program.hidden] : [program.hidden, program.logits];
  return { program, groups, memory: planMemory(program.values, groups.map(groupAccess), kept) };
}

/** What a group reads from and leaves to others. */
function groupAccess(group: Group): MemoryAccess {
  const made = new Set(group.parts.flatMap((part) => outputOf(part) ?? []));
  const inputs = group.parts.flatMap((part) => inputsOf(part)).filter((id) => !made.has(id));
  switch (group.form) {
    case "single":
      return accessOf(group.operation);
    case "project":
      return { inputs, outputs: group.products.map(({ out }) => out) };
    case "gated":
      return { inputs, outputs: [group.activation.out] };
    case "project-add":
      return { inputs, outputs: [group.sum.out] };
    case "rotate-store":
      return { inputs, outputs: [group.query.out] };
    default:
      return group satisfies never;
  }
}

function groupRun(operations: readonly Operation[], program: Program, uses: ValueUses): Group[] {
  const groups: Group[] = [];
  for (let index = 0; index < operations.length;) {
    const rest = operations.slice(index);
    const group = matchRotateStore(rest, uses) ??
      matchProjectAdd(rest, uses) ??
      matchProducts(rest, program, uses) ?? { form: "single", operation: rest[0], parts: [rest[0]] };
    groups.push(group);
    index += group.parts.length;
  }
  return groups;
}

function matchRotateStore([query, key, store]: readonly Operation[], uses: ValueUses): RotateStoreGroup | undefined {
  if (query?.kind !== "rope" || key?.kind !== "rope" || store?.kind !== "kv-write") return undefined;
  const alike = (["headWidth", "rotaryWidth", "style", "rope", "factors"] as const).every(
    (field) => query[field] === key[field],
  );
  const apart = [key.input, store.value].every((id) => uses.rootOf(id) !== query.out);
  if (!alike || !apart || store.key !== key.out) return undefined;
  if (!uses.isOnlyReadBy(key.out, [store])) return undefined;
  return { form: "rotate-store", query, key, store, parts: [query, key, store] };
}

function matchProjectAdd([product, sum]: readonly Operation[], uses: ValueUses): ProjectAddGroup | undefined {
  if (product?.kind !== "linear" || sum?.kind !== "add" || sum.left === sum.right) return undefined;
  const residual = sum.left === product.out ? sum.right : sum.left;
  if (sum.left !== product.out && sum.right !== product.out) return undefined;
  if (uses.rootOf(residual) === product.out || !uses.isOnlyReadBy(product.out, [sum])) return undefined;
  return { form: "project-add", product, residual, sum, parts: [product, sum] };
}

function matchProducts(
  operations: readonly Operation[],
  program: Program,
  uses: ValueUses,
): ProjectGroup | GatedGroup | undefined {
  const [first] = operations;
  const norm = first.kind === "rms-norm" && first.groupWidth === program.values[first.input].width ? first : undefined;
  const start = norm === undefined ? 0 : 1;
  const products: LinearOperation[] = [];
  for (const operation of operations.slice(start)) {
    if (operation.kind !== "linear" || (products.length > 0 && operation.input !== products[0].input)) break;
    products.push(operation);
  }
  if (products.length === 0) return undefined;
  if (norm !== undefined && (products[0].input !== norm.out || !uses.isOnlyReadBy(norm.out, products)))
    return undefined;
  const activation = operations[start + products.length];
  const parts = operations.slice(0, start + products.length);
  return matchGated(norm, products, activation, parts, uses) ?? { form: "project", norm, products, parts };
}

function matchGated(
  norm: RmsNormOperation | undefined,
  products: readonly LinearOperation[],
  activation: Operation | undefined,
  parts: readonly Operation[],
  uses: ValueUses,
): GatedGroup | undefined {
  if (products.length !== 2 || activation?.kind !== "swiglu") return undefined;
  const gate = products.find(({ out }) => out === activation.gate);
  const up = products.find(({ out }) => out === activation.up);
  if (gate === undefined || up === undefined || gate === up) return undefined;
  if (!products.every(({ out }) => uses.isOnlyReadBy(out, [activation]))) return undefined;
  return { form: "gated", norm, gate, up, activation, parts: [...parts, activation] };
}

/** Who reads a value, itself or through a view of its columns. */
class ValueUses {
  readonly #readers = new Map<ValueId, Set<Operation>>();
  readonly #kept: ReadonlySet<ValueId>;
  /** The value whose memory it is. */
  readonly rootOf: (id: ValueId) => ValueId;

  constructor({ values, operations, hidden, logits }: Program) {
    this.rootOf = (id) => values[id].base ?? id;
    this.#kept = new Set([hidden, ...(logits === undefined ? [] : [logits])].map(this.rootOf));
    for (const operation of operations) {
      for (const root of inputsOf(operation).map(this.rootOf)) {
        const readers = this.#readers.get(root) ?? new Set();
        this.#readers.set(root, readers.add(operation));
      }
    }
  }

  isOnlyReadBy(id: ValueId, readers: readonly Operation[]): boolean {
    const root = this.rootOf(id);
    const found = this.#readers.get(root) ?? new Set();
    return root === id && !this.#kept.has(root) && [...found].every((reader) => readers.includes(reader));
  }
}
