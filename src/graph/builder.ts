// Writes a Program: families call a method per operation, or `emit`, and never see ids of slots or devices.
// Every weight is declared with the shape it must have, so the list of required tensors is the graph itself.

import type { Shape } from "../tensor/descriptor.js";
import { withCacheGroups } from "./cache-groups.js";
import { markGates } from "./gates.js";
import { accessOf, planMemory } from "./memory-plan.js";
import {
  type Activation,
  type KindWithResult,
  type Operation,
  resultShape,
  type RopeId,
  type RopeStyle,
  type StateId,
  type UnplacedOperation,
  type ValueId,
  type ValueShape,
  type WeightId,
} from "./operation.js";
import type { KvShape, Program, RopeTable, RowSymbol, Segment, Value, WeightSpec } from "./program.js";

export interface GraphBuilderOptions {
  /** The name a tensor has in this file, for the name its descriptor uses. */
  readonly fileName: (name: string) => string;
  readonly hasTensor: (fileName: string) => boolean;
  /** Longest context that sequences may reach; some families choose tensors by it. Absent: unlimited. */
  readonly contextTokens?: number;
}

export interface EmbedAttributes {
  readonly scale?: number | undefined;
  readonly onHost?: boolean;
}

interface MatmulOptions {
  readonly inputs: number;
  readonly outputs: number;
  readonly softCap?: number | undefined;
  /** Whether a tensor `name.scale` belongs to something else. */
  readonly ignoresScale?: boolean;
}

/** A `grouped-matmul` over one tensor of the file. */
export interface GroupedMatmulOptions {
  readonly inputs: number;
  /** Rows of each matrix. */
  readonly rows: number;
  readonly matrices: number;
  readonly slots: number;
  readonly routing?: ValueId;
  /** Absent: 0, all slots read the same columns. */
  readonly inputStride?: number;
  /** Absent: from the first row on. */
  readonly firstOutput?: number;
  /** Absent: all rows. */
  readonly outputs?: number;
  readonly weighted?: boolean;
  /** Whether the tensor is a matrix of all rows instead of a stack. */
  readonly flat?: boolean;
}

export interface HeadShape {
  readonly heads: number;
  readonly headWidth: number;
}

export interface RopeOptions extends HeadShape {
  readonly rotaryWidth: number;
  readonly firstColumn?: number;
  readonly style: RopeStyle;
  readonly rope: RopeId;
  readonly factors?: WeightId;
}

export type AttentionOptions = Omit<UnplacedOperation<"attention">, "kind" | "query">;

export class GraphBuilder {
  readonly #options: GraphBuilderOptions;
  readonly #values: Value[] = [];
  readonly #weights: WeightSpec[] = [];
  readonly #weightIds = new Map<string, WeightId>();
  readonly #ropes: RopeTable[] = [];
  readonly #operations: Operation[] = [];
  readonly #segments: Segment[] = [];

  constructor(options: GraphBuilderOptions) {
    this.#options = options;
  }

  /** Groups the operations that `write` adds, so that plans and weights can be shown and loaded layer by layer. */
  segment<Result>(name: string, layer: number | undefined, write: () => Result): Result {
    const firstOperation = this.#operations.length;
    const result = write();
    this.#segments.push({
      name,
      ...(layer === undefined ? {} : { layer }),
      firstOperation,
      operationCount: this.#operations.length - firstOperation,
    });
    return result;
  }

  /** Columns of a value. */
  width(id: ValueId): number {
    return this.#values[id].width;
  }

  get contextTokens(): number {
    return this.#options.contextTokens ?? Number.POSITIVE_INFINITY;
  }

  hasTensor(name: string): boolean {
    return this.#options.hasTensor(this.#options.fileName(name));
  }

  ropeTable(table: RopeTable): RopeId {
    return this.#ropes.push(table) - 1;
  }

  vector(name: string, width: number): WeightId {
    return this.#weight(name, [width], "vector");
  }

  /** A tensor of several dimensions that is read element by element. */
  table(name: string, shape: Shape): WeightId {
    return this.#weight(name, shape, "vector");
  }

  optionalVector(name: string, width: number): WeightId | undefined {
    return this.hasTensor(name) ? this.vector(name, width) : undefined;
  }

  embed(table: string, width: number, vocabularySize: number, { scale, onHost }: EmbedAttributes = {}): ValueId {
    const weight = this.#weight(table, [width, vocabularySize], "matrix", onHost);
    return this.emit("embedding", {
      kind: "embed",
      table: weight,
      ...(scale === undefined ? {} : { scale }),
      ...(onHost === true ? { onHost } : {}),
    });
  }

  rmsNorm(input: ValueId, name: string, epsilon: number, groupWidth = this.width(input)): ValueId {
    // Some converters leave the suffix out.
    const weight = this.vector(this.hasTensor(name) ? name : `${name}.weight`, groupWidth);
    return this.emit(name, { kind: "rms-norm", input, weight, groupWidth, epsilon });
  }

  unweightedRmsNorm(input: ValueId, epsilon: number, groupWidth = this.width(input)): ValueId {
    return this.emit(`${this.#values[input].name}.norm`, { kind: "rms-norm", input, groupWidth, epsilon });
  }

  layerNorm(input: ValueId, name: string, epsilon: number): ValueId {
    const weight = this.vector(`${name}.weight`, this.width(input));
    const bias = this.optionalVector(`${name}.bias`, this.width(input));
    return this.emit(name, { kind: "layer-norm", input, weight, epsilon, ...(bias === undefined ? {} : { bias }) });
  }

  /** Multiplies by a number; returns `input` itself for 1. */
  scale(input: ValueId, factor: number): ValueId {
    return factor === 1 ? input : this.emit(`${this.#values[input].name}.scaled`, { kind: "scale", input, factor });
  }

  /** Multiplies by the one-element tensor `name`. */
  scaleByTensor(input: ValueId, name: string): ValueId {
    return this.emit(name, { kind: "scale", input, weight: this.vector(name, 1) });
  }

  quantizeActivations(input: ValueId): ValueId {
    return this.emit(`${this.#values[input].name}.quantized`, { kind: "quantize-activations", input });
  }

  /** A matmul with `name.weight`, and with `name.bias` and `name.scale` if the file has them. */
  matmul(input: ValueId, name: string, { inputs, outputs, softCap, ignoresScale = false }: MatmulOptions): ValueId {
    const weight = this.#weight(`${name}.weight`, [inputs, outputs], "matrix");
    const scale = ignoresScale ? undefined : this.optionalVector(`${name}.scale`, 1);
    const bias = this.optionalVector(`${name}.bias`, outputs);
    return this.emit(name, {
      kind: "matmul",
      input,
      weight,
      ...(scale === undefined ? {} : { scale }),
      ...(bias === undefined ? {} : { bias }),
      ...(softCap === undefined ? {} : { softCap }),
    });
  }

  /** A matmul with matrices of `name.weight`, and with `name.bias` and `name.scale` if the file has them. */
  groupedMatmul(input: ValueId, name: string, options: GroupedMatmulOptions): ValueId {
    const { inputs, rows, matrices, slots, routing, inputStride = 0, firstOutput = 0, weighted = false } = options;
    const shape = options.flat === true ? [inputs, rows * matrices] : [inputs, rows, matrices];
    const weight = this.#weight(`${name}.weight`, shape, "matrix");
    const scale = this.optionalVector(`${name}.scale`, matrices);
    const bias = this.hasTensor(`${name}.bias`) ? this.#weight(`${name}.bias`, [rows, matrices], "vector") : undefined;
    return this.emit(name, {
      kind: "grouped-matmul",
      input,
      ...(routing === undefined ? {} : { routing }),
      weight,
      ...(scale === undefined ? {} : { scale }),
      ...(bias === undefined ? {} : { bias }),
      slots,
      matrixRows: rows,
      inputStride,
      firstOutput,
      outputs: options.outputs ?? rows,
      weighted,
    });
  }

  /** A view of some columns; costs nothing and shares the memory of `input`. */
  columns(input: ValueId, name: string, columnOffset: number, width: number): ValueId {
    const source = this.#values[input];
    const id = this.#values.length;
    this.#values.push({
      id,
      name,
      rows: source.rows,
      width,
      base: source.base ?? input,
      columnOffset: source.columnOffset + columnOffset,
    });
    return id;
  }

  /** Columns of each head. */
  headColumns(
    input: ValueId,
    name: string,
    columns: Omit<UnplacedOperation<"head-columns">, "kind" | "input">,
  ): ValueId {
    return this.emit(name, { kind: "head-columns", input, ...columns });
  }

  rope(input: ValueId, options: RopeOptions): ValueId {
    return this.emit(`${this.#values[input].name}.rope`, { kind: "rope", input, ...options });
  }

  /** Stores keys and values in a layer of the cache; without `value`, the values are columns of the keys. */
  kvWrite(layer: number, key: ValueId, value?: ValueId): void {
    const operation = { kind: "kv-write", layer, key, ...(value === undefined ? {} : { value }) } as const;
    this.#check(operation);
    this.#operations.push(operation);
  }

  /** Stores each token's row as its sequence's state. */
  stateWrite(state: StateId, input: ValueId): void {
    const operation = { kind: "state-write", state, input } as const;
    this.#check(operation);
    this.#operations.push(operation);
  }

  /** Stores keys and values, and attends over the layer that has them now. */
  attention(query: ValueId, key: ValueId, value: ValueId | undefined, options: AttentionOptions): ValueId {
    this.kvWrite(options.layer, key, value);
    return this.attend(query, options);
  }

  /** Attends over a layer of the cache without storing keys and values. */
  attend(query: ValueId, options: AttentionOptions): ValueId {
    return this.emit("attention", { kind: "attention", query, ...options });
  }

  glu(gate: ValueId, up: ValueId, activation: Activation): ValueId {
    return this.emit("glu", { kind: "glu", activation, gate, up });
  }

  add(left: ValueId, right: ValueId): ValueId {
    return this.emit("sum", { kind: "add", left, right });
  }

  selectRows(input: ValueId, rows: Exclude<RowSymbol, "tokens">): ValueId {
    return this.emit(`${this.#values[input].name}.${rows}`, { kind: "select-rows", rows, input });
  }

  /**
   * Adds an operation; its result gets this name, and the shape that the table of operations says. Operations that need
   * weights of the file, a usual name or a second operation have methods of their own.
   */
  emit(name: string, operation: UnplacedOperation<KindWithResult>): ValueId {
    const shape = this.#check(operation);
    if (shape === undefined) throw new TypeError(`${operation.kind} has no result`);
    const out = this.#values.length;
    this.#values.push({ id: out, name, ...shape, columnOffset: 0 });
    this.#operations.push({ ...operation, out });
    return out;
  }

  finish(result: {
    readonly kv: KvShape;
    readonly vocabularySize: number;
    readonly hidden: ValueId;
    readonly logits: ValueId | undefined;
  }): Program {
    const kept = result.logits === undefined ? [result.hidden] : [result.hidden, result.logits];
    return deepFreeze({
      values: this.#values,
      weights: result.kv.states === undefined ? this.#weights : markGates(this.#weights),
      ropes: this.#ropes,
      operations: this.#operations,
      segments: this.#segments,
      memory: planMemory(this.#values, this.#operations.map(accessOf), kept),
      ...result,
      kv: withCacheGroups(result.kv, this.#operations, this.contextTokens),
    });
  }

  #weight(name: string, shape: Shape, role: WeightSpec["role"], onHost = false): WeightId {
    const fileName = this.#options.fileName(name);
    const known = this.#weightIds.get(fileName);
    if (known !== undefined) {
      const { onHost: stays = false, ...spec } = this.#weights[known];
      if (stays && !onHost) this.#weights[known] = spec;
      return known;
    }
    const id = this.#weights.push({ name: fileName, shape, role, ...(onHost ? { onHost } : {}) }) - 1;
    this.#weightIds.set(fileName, id);
    return id;
  }

  #check(operation: UnplacedOperation): ValueShape | undefined {
    return resultShape(operation, {
      value: (id) => ({ rows: this.#values[id].rows, width: this.#values[id].width }),
      weight: (id) => this.#weights[id].shape,
    });
  }
}

function deepFreeze<Type>(value: Type): Type {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const child of Object.values(value)) deepFreeze(child);
  }
  return value;
}
