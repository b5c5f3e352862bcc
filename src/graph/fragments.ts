// Parts of a program that can run alone: the embedding, one block of each kind of layer, the output. A block ends where
// nothing but the residual stream passes on to the operations after it. What a part reads of others comes through tables
// of plain floats instead, so that it can be given any inputs. Blocks of the same operations, shapes and types of weights
// are one part, however many layers have them.

import { withCacheGroups } from "./cache-groups.js";
import { accessOf, planMemory } from "./memory-plan.js";
import {
  type EmbedOperation,
  fieldsOf,
  inputsOf,
  type Operation,
  outputOf,
  type StateId,
  type ValueId,
  type WeightId,
} from "./operation.js";
import {
  kvLayers,
  type KvLayerShape,
  kvShapeOf,
  type Program,
  type Segment,
  type Value,
  type WeightSpec,
} from "./program.js";

/** Rows of the tables through which a fragment gets its inputs. */
const INPUT_ROWS = 61;
/** Tables have a row for each token of the vocabulary if the fragment needs that; it is left out if they were larger. */
const MAX_TABLE_ELEMENTS = 2 ** 26;

/** A part of a program, as a program. */
export interface Fragment {
  /** The segment that it is taken from. */
  readonly name: string;
  readonly program: Program;
  /** The weight of the whole program for each of the fragment's; undefined for a table of inputs. */
  readonly weights: readonly (WeightId | undefined)[];
  /** Tokens below this number are rows of every table. */
  readonly tokens: number;
  /** Tables of inputs that are as wide as the result: one of them may have been added to it. */
  readonly residuals: readonly WeightId[];
  /** Whether it needs a cache: for keys and values or for recurrent states. */
  readonly needsCache: boolean;
}

interface FragmentOptions {
  readonly contextTokens: number;
  /** Everything about a weight besides its shape that kernels depend on, such as its type. */
  describe(weight: WeightId): string;
}

/** The distinct parts of a program, in order. */
export function fragmentsOf(program: Program, options: FragmentOptions): readonly Fragment[] {
  const uses = new Uses(program);
  const found = new Map<string, Fragment>();
  for (const segment of program.segments) {
    for (const block of blocksOf(segment, uses)) {
      for (const result of resultsOf(program, block, uses)) {
        const fragment = new FragmentWriter(program, options.contextTokens).write(segment, block, result);
        const key = signature(fragment, options);
        if (!found.has(key) && fitsMemory(fragment)) found.set(key, fragment);
      }
    }
  }
  return [...found.values()];
}

/** Operations from `first` to before `end`. */
interface Block {
  readonly first: number;
  readonly end: number;
}

/** What a fragment gives: a hidden state, or those of the program with its logits. */
type FragmentResult = ValueId | "results";

/** When each value is written and last read; a view counts as its base. */
class Uses {
  readonly program: Program;
  readonly written = new Map<ValueId, number>();
  readonly #lastRead = new Map<ValueId, number>();

  constructor(program: Program) {
    this.program = program;
    for (const [index, operation] of program.operations.entries()) {
      const out = outputOf(operation);
      if (out !== undefined) this.written.set(rootOf(program, out), index);
      for (const input of inputsOf(operation)) this.#lastRead.set(rootOf(program, input), index);
    }
    for (const id of [program.hidden, program.logits])
      if (id !== undefined) this.#lastRead.set(rootOf(program, id), Number.POSITIVE_INFINITY);
  }

  /** Values, of these, that operations before this one have written and it or later ones read. */
  live(index: number, among: Iterable<ValueId> = this.written.keys()): readonly ValueId[] {
    return [...among].filter(
      (root) => (this.written.get(root) ?? 0) < index && (this.#lastRead.get(root) ?? -1) >= index,
    );
  }
}

function rootOf({ values }: Program, id: ValueId): ValueId {
  return values[id].base ?? id;
}

/** The blocks of a layer; other segments are one block. */
function blocksOf({ layer, firstOperation, operationCount }: Segment, uses: Uses): readonly Block[] {
  const end = firstOperation + operationCount;
  if (operationCount === 0) return [];
  if (layer === undefined) return [{ first: firstOperation, end }];
  const before = uses.live(firstOperation);
  const passing = new Set(uses.live(end, before));
  const { program } = uses;
  const written = program.operations.slice(firstOperation, end).flatMap((operation) => outputOf(operation) ?? []);
  const near = new Set([...before, ...written.map((out) => rootOf(program, out))]);
  const blocks: Block[] = [];
  let first = firstOperation;
  for (let index = firstOperation + 1; index <= end; index++) {
    const own = uses.live(index, near).filter((root) => !passing.has(root));
    if (index < end && own.length !== 1) continue;
    blocks.push({ first, end: index });
    first = index;
  }
  return blocks;
}

function resultsOf(program: Program, { first, end }: Block, uses: Uses): readonly FragmentResult[] {
  const isOwn = (root: ValueId): boolean => {
    const at = uses.written.get(root) ?? -1;
    return at >= first && at < end;
  };
  const { logits } = program;
  if (logits !== undefined && isOwn(rootOf(program, logits))) return ["results"];
  return uses.live(end).filter(isOwn);
}

/** Equal for fragments that take the same kernels. */
function signature({ program, weights, needsCache }: Fragment, { describe }: FragmentOptions): string {
  const values = program.values.map(({ rows, width, base, columnOffset }) => [rows, width, base, columnOffset]);
  const specs = program.weights.map(({ shape, role, onHost }, index) => {
    const weight = weights[index];
    return [shape, role, onHost, weight === undefined ? "inputs" : describe(weight)];
  });
  return JSON.stringify([program.operations, values, specs, program.kv, program.hidden, program.logits, needsCache]);
}

function fitsMemory({ program, weights }: Fragment): boolean {
  return program.weights.every(
    ({ shape }, index) => weights[index] !== undefined || shape[0] * shape[1] <= MAX_TABLE_ELEMENTS,
  );
}

/** Writes one fragment: ids of the whole program become its own. */
class FragmentWriter {
  readonly #source: Program;
  readonly #contextTokens: number;
  readonly #values: Value[] = [];
  readonly #valueOf = new Map<ValueId, ValueId>();
  readonly #specs: WeightSpec[] = [];
  readonly #weights: (WeightId | undefined)[] = [];
  readonly #weightOf = new Map<WeightId, WeightId>();
  readonly #layers = new Map<number, number>();
  readonly #states = new Map<StateId, StateId>();
  readonly #operations: Operation[] = [];
  /** Rows of every table. */
  #rows = INPUT_ROWS;

  constructor(source: Program, contextTokens: number) {
    this.#source = source;
    this.#contextTokens = contextTokens;
  }

  write({ name, layer }: Segment, { first, end }: Block, result: FragmentResult): Fragment {
    const operations = this.#source.operations.slice(first, end);
    const isOwn = new Set(
      operations.flatMap((operation) => outputOf(operation) ?? []).map((out) => rootOf(this.#source, out)),
    );
    const read = operations.flatMap(inputsOf).map((id) => rootOf(this.#source, id));
    const results = result === "results" ? [this.#source.hidden] : [result];
    if (result === "results" || operations.some(({ kind }) => kind === "embed"))
      this.#rows = this.#source.vocabularySize;
    for (const root of new Set([...read, ...results.map((id) => rootOf(this.#source, id))]))
      if (!isOwn.has(root)) this.#writeInput(root);
    const inputs = this.#operations.length;
    for (const operation of operations) this.#writeOperation(operation);
    const written = this.#operations.length - inputs;
    const hidden = this.#selected(this.#value(results[0]));
    const logits =
      result === "results" && this.#source.logits !== undefined ? this.#value(this.#source.logits) : undefined;
    const segments: readonly Segment[] = [
      { name: "inputs", firstOperation: 0, operationCount: inputs },
      { name, ...(layer === undefined ? {} : { layer: 0 }), firstOperation: inputs, operationCount: written },
      {
        name: "outputs",
        firstOperation: inputs + written,
        operationCount: this.#operations.length - inputs - written,
      },
    ];
    return this.#finish(name, segments, hidden, logits);
  }

  #finish(name: string, segments: readonly Segment[], hidden: ValueId, logits: ValueId | undefined): Fragment {
    const { ropes } = this.#source;
    const kept = logits === undefined ? [hidden] : [hidden, logits];
    const operations = this.#operations;
    const kv = withCacheGroups(this.#kvShape(), operations, this.#contextTokens);
    const { width } = this.#values[hidden];
    return {
      name,
      program: {
        values: this.#values,
        weights: this.#specs,
        ropes,
        operations,
        segments: segments.filter(({ operationCount }) => operationCount > 0),
        memory: planMemory(this.#values, operations.map(accessOf), kept),
        kv,
        vocabularySize: this.#rows,
        hidden,
        logits,
      },
      weights: this.#weights,
      tokens: this.#rows,
      residuals: this.#weights.flatMap((weight, index) =>
        weight === undefined && this.#specs[index].shape[0] === width ? [index] : [],
      ),
      needsCache: kv.layers > 0 || kv.states !== undefined,
    };
  }

  /** Layers and states that the operations have; a program with states keeps one, because others are lowered differently. */
  #kvShape(): ReturnType<typeof kvShapeOf> {
    const { kv } = this.#source;
    const shapes: readonly KvLayerShape[] = kvLayers(kv);
    const states = kv.states ?? [];
    const own = [...this.#states.keys()].map((state) => states[state]);
    const layers = [...this.#layers.keys()].map((layer) => ({
      kvHeads: shapes[layer].kvHeads,
      keyWidth: shapes[layer].keyWidth,
      valueWidth: shapes[layer].valueWidth,
    }));
    return kvShapeOf(layers, own.length > 0 || states.length === 0 ? own : [Math.min(...states)]);
  }

  /** A value that the fragment only reads: from the model's embeddings if it may, else from a table of its own. */
  #writeInput(root: ValueId): void {
    const { rows, width, name } = this.#source.values[root];
    const embed = this.#rows === INPUT_ROWS ? undefined : this.#embedOf(width);
    let out = this.#add(name, "tokens", width);
    if (embed === undefined) this.#operations.push({ kind: "embed", table: this.#inputTable(name, width), out });
    else this.#operations.push({ ...embed, table: this.#weight(embed.table), out });
    if (rows !== "tokens") out = this.#selected(out);
    if (rows === "scored") {
      const scored = this.#add(name, "scored", width);
      this.#operations.push({ kind: "select-rows", rows: "scored", input: out, out: scored });
      out = scored;
    }
    this.#valueOf.set(root, out);
  }

  #inputTable(name: string, width: number): WeightId {
    this.#weights.push(undefined);
    return this.#specs.push({ name: `input ${name}`, shape: [width, this.#rows], role: "matrix" }) - 1;
  }

  /** The program's own embeddings of this width. */
  #embedOf(width: number): EmbedOperation | undefined {
    const { operations, weights } = this.#source;
    return operations.find(
      (operation): operation is EmbedOperation =>
        operation.kind === "embed" && weights[operation.table].shape[0] === width,
    );
  }

  #writeOperation(operation: Operation): void {
    const written: Record<string, unknown> = { ...operation };
    for (const { name, role, value } of fieldsOf(operation)) {
      if (typeof value !== "number") continue;
      if (role === "input") written[name] = this.#value(value);
      if (role === "output") written[name] = this.#placed(value);
      if (role === "weight") written[name] = this.#weight(value);
      if (role === "kv-layer") written[name] = numbered(this.#layers, value);
      if (role === "state") written[name] = numbered(this.#states, value);
    }
    this.#operations.push(written as unknown as Operation);
  }

  #value(id: ValueId): ValueId {
    const known = this.#valueOf.get(id);
    if (known !== undefined) return known;
    const { base, columnOffset, name, rows, width } = this.#source.values[id];
    if (base === undefined) throw new TypeError(`${name} is read before it is written`);
    const own = this.#value(base);
    const view = this.#values.length;
    this.#values.push({ id: view, name, rows, width, base: this.#values[own].base ?? own, columnOffset });
    this.#valueOf.set(id, view);
    return view;
  }

  /** The place of a result. */
  #placed(id: ValueId): ValueId {
    const { name, rows, width } = this.#source.values[id];
    const out = this.#add(name, rows, width);
    this.#valueOf.set(id, out);
    return out;
  }

  #add(name: string, rows: Value["rows"], width: number): ValueId {
    return this.#values.push({ id: this.#values.length, name, rows, width, columnOffset: 0 }) - 1;
  }

  #weight(id: WeightId): WeightId {
    const known = this.#weightOf.get(id);
    if (known !== undefined) return known;
    const own = this.#specs.push(this.#source.weights[id]) - 1;
    this.#weights.push(id);
    this.#weightOf.set(id, own);
    return own;
  }

  /** The rows of a value that the step's outputs ask for. */
  #selected(id: ValueId): ValueId {
    const { name, rows, width } = this.#values[id];
    if (rows !== "tokens") return id;
    const out = this.#add(name, "outputs", width);
    this.#operations.push({ kind: "select-rows", rows: "outputs", input: id, out });
    return out;
  }
}

/** The new number of something that is numbered as it occurs. */
function numbered(known: Map<number, number>, id: number): number {
  const number = known.get(id) ?? known.size;
  known.set(id, number);
  return number;
}
