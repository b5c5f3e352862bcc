// The loops of a disassembled kernel: natural loops, by the dominators of its basic blocks. Compilers move blocks that are
// seldom taken to the end, with a branch back, so a branch backwards alone makes no loop.

import type { Instruction, KernelCode } from "./disassembly.js";

interface Block {
  readonly first: number;
  /** One past its last instruction. */
  readonly end: number;
  readonly next: readonly number[];
}

/** The instructions of each loop in the order of their addresses; the smallest loops first. */
export function loopsOf(code: KernelCode): readonly (readonly Instruction[])[] {
  const blocks = blocksOf(code.instructions);
  const dominators = dominatorsOf(blocks);
  const previous = previousOf(blocks);
  const bodies = new Map<number, Set<number>>();
  for (const [index, { next }] of blocks.entries()) {
    for (const head of next.filter((target) => dominators[index].has(target))) {
      const body = bodies.get(head) ?? new Set([head]);
      bodies.set(head, body);
      addWhatLeadsTo(index, previous, body);
    }
  }
  return [...bodies.values()]
    .map((body) =>
      [...body]
        .toSorted((left, right) => left - right)
        .flatMap((index) => code.instructions.slice(blocks[index].first, blocks[index].end)),
    )
    .toSorted((left, right) => left.length - right.length);
}

/** The body already has the loop's head, which ends the search. */
function addWhatLeadsTo(last: number, previous: readonly (readonly number[])[], body: Set<number>): void {
  const left = [last];
  for (let index = left.pop(); index !== undefined; index = left.pop()) {
    if (body.has(index)) continue;
    body.add(index);
    left.push(...previous[index]);
  }
}

function blocksOf(instructions: readonly Instruction[]): readonly Block[] {
  const indexOf = new Map(instructions.map(({ address }, index) => [address, index]));
  const targetOf = ({ target }: Instruction): number | undefined =>
    target === undefined ? undefined : indexOf.get(target);
  const starts = new Set([0]);
  for (const [index, instruction] of instructions.entries()) {
    if (instruction.target === undefined && !isEnd(instruction)) continue;
    starts.add(index + 1);
    const target = targetOf(instruction);
    if (target !== undefined) starts.add(target);
  }
  const firsts = [...starts].filter((start) => start < instructions.length).toSorted((left, right) => left - right);
  const blockAt = new Map(firsts.map((first, block) => [first, block]));
  return firsts.map((first, block) => {
    const end = firsts[block + 1] ?? instructions.length;
    const last = instructions[end - 1];
    const target = targetOf(last);
    const falls = !isEnd(last) && last.name !== "s_branch" && block + 1 < firsts.length;
    const next = [...(target === undefined ? [] : [blockAt.get(target) ?? 0]), ...(falls ? [block + 1] : [])];
    return { first, end, next };
  });
}

const isEnd = ({ name }: Instruction): boolean => name === "s_endpgm" || name.startsWith("s_setpc");

function previousOf(blocks: readonly Block[]): readonly (readonly number[])[] {
  const previous: number[][] = blocks.map(() => []);
  for (const [index, { next }] of blocks.entries()) for (const target of next) previous[target].push(index);
  return previous;
}

/** Of each block those that every way to it goes through, itself included. */
function dominatorsOf(blocks: readonly Block[]): readonly ReadonlySet<number>[] {
  const all = new Set(blocks.keys());
  const dominators: Set<number>[] = blocks.map((_, index) => (index === 0 ? new Set([0]) : new Set(all)));
  const previous = previousOf(blocks);
  for (let changed = true; changed;) {
    changed = false;
    for (let index = 1; index < blocks.length; index++) {
      const before = previous[index].map((other) => dominators[other]);
      const common = [...(before[0] ?? [])].filter((other) => before.every((set) => set.has(other)));
      const found = new Set([...common, index]);
      if (found.size === dominators[index].size) continue;
      dominators[index] = found;
      changed = true;
    }
  }
  return dominators;
}
