// What the machine code of sm_90 says of loads: an instruction is 16 bytes, of which the last ones tell which of six
// scoreboards counts it until it is done, and for which of them the instruction waits until they are at zero. So a wait is for
// all loads that one scoreboard counts, the last included. NVIDIA documents none of this; the places of the bits are what
// nvdisasm shows.

/** A load of memory, and branches. */
const LOAD = 0x981;
const BRANCH = 0x947;
const INSTRUCTION_BYTES = 16;
const NO_SCOREBOARD = 7;
const SCOREBOARDS = [0, 1, 2, 3, 4, 5] as const;
/** Matrix instructions of warps and of warpgroups. */
const MATRIX_INSTRUCTIONS: ReadonlySet<number> = new Set([0x23c, 0xdf0]);

export interface NvidiaInstruction {
  readonly opcode: number;
  /** That counts it; undefined: none does. */
  readonly scoreboard: number | undefined;
  /** That it waits for. */
  readonly waits: readonly number[];
  /** Of a branch: how many instructions further the next one is. */
  readonly jump: number | undefined;
}

/** The kernels of a cubin, by their names. */
export function readCubin(cubin: Buffer): ReadonlyMap<string, readonly NvidiaInstruction[]> {
  const kernels = new Map<string, readonly NvidiaInstruction[]>();
  for (const [name, content] of sectionsOf(cubin))
    if (name.startsWith(".text.")) kernels.set(name.slice(".text.".length), instructionsOf(content));
  return kernels;
}

/** ELF of 64 bits: the headers of sections name an offset and a size each. */
function sectionsOf(elf: Buffer): readonly (readonly [string, Buffer])[] {
  const [table, size, count, names] = [
    Number(elf.readBigUInt64LE(0x28)),
    elf.readUInt16LE(0x3a),
    elf.readUInt16LE(0x3c),
    elf.readUInt16LE(0x3e),
  ];
  const contentAt = (index: number): Buffer => {
    const header = table + index * size;
    const offset = Number(elf.readBigUInt64LE(header + 0x18));
    return elf.subarray(offset, offset + Number(elf.readBigUInt64LE(header + 0x20)));
  };
  const texts = contentAt(names);
  return Array.from({ length: count }, (_, index) => {
    const start = elf.readUInt32LE(table + index * size);
    return [texts.toString("latin1", start, texts.indexOf(0, start)), contentAt(index)] as const;
  });
}

function instructionsOf(code: Buffer): readonly NvidiaInstruction[] {
  return Array.from({ length: code.byteLength / INSTRUCTION_BYTES }, (_, index) => {
    const low = code.readBigUInt64LE(index * INSTRUCTION_BYTES);
    const control = Number(code.readBigUInt64LE(index * INSTRUCTION_BYTES + 8) >> 41n);
    const opcode = Number(low & 0xfffn);
    const scoreboard = (control >> 5) & 7;
    return {
      opcode,
      scoreboard: scoreboard === NO_SCOREBOARD ? undefined : scoreboard,
      waits: SCOREBOARDS.filter((bit) => ((control >> 11) & (1 << bit)) !== 0),
      jump: opcode === BRANCH ? jumpOf(low, code.readBigUInt64LE(index * INSTRUCTION_BYTES + 8)) : undefined,
    };
  });
}

/** A signed number of words of four bytes in three parts, from the next instruction on. */
function jumpOf(low: bigint, high: bigint): number {
  const words = ((high & 0x3ffffn) << 38n) | ((low >> 34n) << 8n) | ((low >> 16n) & 0xffn);
  return 1 + Number(BigInt.asIntN(56, words) / 4n);
}

/** The smallest loop that has the most matrix instructions, from its first instruction to the branch back. */
export function matrixLoop(code: readonly NvidiaInstruction[]): readonly NvidiaInstruction[] {
  const loops = code.flatMap(({ jump }, end) =>
    jump !== undefined && jump < 0 && end + jump >= 0 ? [code.slice(end + jump, end + 1)] : [],
  );
  const density = (loop: readonly NvidiaInstruction[]): number =>
    loop.filter(({ opcode }) => MATRIX_INSTRUCTIONS.has(opcode)).length / loop.length;
  const [densest] = loops.toSorted((left, right) => density(right) - density(left));
  if (densest === undefined || density(densest) === 0) throw new TypeError("there is no loop of matrix instructions");
  return densest;
}

/**
 * The fewest instructions of a loop from the last load that a wait is for to that wait, whatever was asked for before it; the
 * loop goes round. Undefined: nothing in the loop waits for loads.
 */
export function loadWait(loop: readonly NvidiaInstruction[]): number | undefined {
  const twice = [...loop, ...loop];
  const distances = SCOREBOARDS.flatMap((scoreboard) => {
    const isLoad = (one: NvidiaInstruction): boolean => one.opcode === LOAD && one.scoreboard === scoreboard;
    let last: number | undefined;
    return twice.flatMap((one, index) => {
      const from = last;
      if (one.waits.includes(scoreboard)) last = undefined;
      if (isLoad(one)) last = index;
      return from !== undefined && one.waits.includes(scoreboard) ? [index - from] : [];
    });
  });
  return distances.length === 0 ? undefined : Math.min(...distances);
}
