import { expect, it } from "vitest";
import { loadWait, type NvidiaInstruction, matrixLoop, readCubin } from "./nvidia-code.js";

const LOAD = 0x981;
const MATRIX_INSTRUCTION = 0xdf0;

function code(...ones: readonly Partial<NvidiaInstruction>[]): readonly NvidiaInstruction[] {
  return ones.map((one) => ({ opcode: 0x212, scoreboard: undefined, waits: [], jump: undefined, ...one }));
}

/** An ELF file with a section of code and one of names. */
function cubin(instructions: readonly (readonly [low: bigint, high: bigint])[]): Buffer {
  const names = "\0.text.multiply\0.names\0";
  const text = Buffer.alloc(instructions.length * 16);
  for (const [index, [low, high]] of instructions.entries()) {
    text.writeBigUInt64LE(low, index * 16);
    text.writeBigUInt64LE(high, index * 16 + 8);
  }
  const table = 64 + text.byteLength + names.length;
  const elf = Buffer.alloc(table + 2 * 64);
  elf.writeBigUInt64LE(BigInt(table), 0x28);
  elf.writeUInt16LE(64, 0x3a);
  elf.writeUInt16LE(2, 0x3c);
  elf.writeUInt16LE(1, 0x3e);
  text.copy(elf, 64);
  elf.write(names, 64 + text.byteLength, "latin1");
  const section = (index: number, name: number, offset: number, size: number): void => {
    elf.writeUInt32LE(name, table + index * 64);
    elf.writeBigUInt64LE(BigInt(offset), table + index * 64 + 0x18);
    elf.writeBigUInt64LE(BigInt(size), table + index * 64 + 0x20);
  };
  section(0, 1, 64, text.byteLength);
  section(1, 16, 64 + text.byteLength, names.length);
  return elf;
}

it("reads opcodes, scoreboards, waits and jumps", () => {
  const control = (scoreboard: number, waits: number): bigint => (BigInt(scoreboard) << 46n) | (BigInt(waits) << 52n);
  const read = readCubin(
    cubin([
      [0x981n, control(5, 0)],
      [0x212n, control(7, 0b100001)],
      // A branch to itself, as compilers put it behind the last instruction.
      [0xffff_fffc_00fc_7947n, (0x7n << 46n) | 0x3ffffn],
    ]),
  ).get("multiply");
  expect(read).toEqual([
    { opcode: 0x981, scoreboard: 5, waits: [], jump: undefined },
    { opcode: 0x212, scoreboard: undefined, waits: [0, 5], jump: undefined },
    { opcode: 0x947, scoreboard: undefined, waits: [], jump: 0 },
  ]);
});

it("finds the densest loop of matrix instructions", () => {
  const all = code(
    {},
    { opcode: MATRIX_INSTRUCTION },
    { opcode: MATRIX_INSTRUCTION },
    { opcode: 0x947, jump: -2 },
    { opcode: 0x947, jump: -4 },
  );
  expect(matrixLoop(all)).toEqual(all.slice(1, 4));
  expect(() => matrixLoop(code({}, {}))).toThrow(/no loop of matrix instructions/);
});

it("counts from the last load of a scoreboard to the wait for it, round the loop", () => {
  const load = { opcode: LOAD, scoreboard: 5 };
  expect(loadWait(code({ waits: [5] }, {}, {}, load, {}))).toBe(2);
  expect(loadWait(code(load, { waits: [5] }, {}))).toBe(1);
  // Loads behind a wait belong to the next one.
  expect(loadWait(code({ waits: [5] }, load, {}, {}, { waits: [5] }, load, {}))).toBe(2);
  expect(loadWait(code({ waits: [4] }, load, {}))).toBeUndefined();
});
