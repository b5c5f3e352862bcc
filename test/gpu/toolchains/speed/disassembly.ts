// What llvm-objdump says of a kernel of AMD's, as instructions with their loops: which of them wait, load and multiply is
// read from their names (LLVM's AMDGPU instruction syntax, GFX9 to GFX12).

export interface Instruction {
  readonly address: number;
  readonly name: string;
  readonly operands: string;
  /** Where a branch leads. */
  readonly target?: number;
}

export interface KernelCode {
  readonly name: string;
  readonly instructions: readonly Instruction[];
}

const HEADING = /^([\da-f]+) <([^>]+)>:$/;
const LINE = /^\s+(\S+)\s*(.*?)\s*\/\/ ([\dA-F]+): [\dA-F ]+(?:<[^+>]+\+0x([\da-f]+)>|<[^+>]+>)?\s*$/;

/** Kernels by name; what follows the end of a program is padding. */
export function readDisassembly(text: string): ReadonlyMap<string, KernelCode> {
  const kernels = new Map<string, KernelCode>();
  let base = 0;
  let current: Instruction[] = [];
  for (const line of text.split("\n")) {
    const heading = HEADING.exec(line);
    if (heading !== null) {
      base = Number.parseInt(heading[1], 16);
      current = [];
      kernels.set(heading[2], { name: heading[2], instructions: current });
      continue;
    }
    const found = LINE.exec(line);
    if (found === null || found[1] === "s_code_end") continue;
    const [, name, operands, address, offset] = found;
    const isBranch = name.startsWith("s_cbranch") || name === "s_branch";
    current.push({
      address: Number.parseInt(address, 16),
      name,
      operands,
      ...(isBranch ? { target: base + Number.parseInt(offset ?? "0", 16) } : {}),
    });
  }
  return kernels;
}

/** Instructions that no unit executes: waits and hints. */
export function isFree({ name }: Instruction): boolean {
  return /^s_(wait|nop|delay_alu|clause|sleep|set_inst_prefetch|code_end|endpgm)/.test(name);
}

/** Cycles of the unit for those that take four times as long as an addition: functions, and products of 32 bits and more. */
export function slotsOf(instruction: Instruction): number {
  if (isFree(instruction)) return 0;
  return /^v_(s_)?(exp|log|rcp|rsq|sqrt|sin|cos)_|^v_mul_(lo|hi)_|^v_mad_[iu]64|^v_mad_co_[iu]64/.test(instruction.name)
    ? 4
    : 1;
}

/** Of the vector unit; SIMDs issue other kinds, of other waves, in the same cycle (CDNA3 and RDNA3 instruction set guides). */
export const isVector = ({ name }: Instruction): boolean => name.startsWith("v_");
export const isFlat = ({ name }: Instruction): boolean => /^flat_(load|store|atomic)/.test(name);
export const isGlobalLoad = ({ name }: Instruction): boolean => /^(global|flat|buffer)_load/.test(name);
export const isSharedLoad = ({ name }: Instruction): boolean => /^ds_(load|read)/.test(name);
export const isLaneExchange = ({ name }: Instruction): boolean => /^ds_b?permute|^ds_swizzle/.test(name);
export const isDpp = ({ name, operands }: Instruction): boolean =>
  /_dpp|v_permlane|v_readlane/.test(name) || / (row_|quad_perm|wave_)/.test(operands);
export const isDot4 = ({ name }: Instruction): boolean => name.startsWith("v_dot4");
export const isMatrix = ({ name }: Instruction): boolean => /^v_(wmma|mfma|swmmac)/.test(name);
export const isBarrier = ({ name }: Instruction): boolean => /^s_barrier(_signal)?$/.test(name);
export const isInvalidation = ({ name }: Instruction): boolean =>
  /^(buffer_gl[01]_inv|buffer_inv|global_inv|buffer_wbinv)/.test(name);
/** Read once: not to be kept in caches. */
export const isStreamed = (instruction: Instruction): boolean =>
  isGlobalLoad(instruction) && /\b(slc|nt|TH_LOAD_NT)\b/.test(instruction.operands);

const WIDTHS: readonly (readonly [RegExp, number])[] = [
  [/b128|dwordx4/, 16],
  [/b96|dwordx3/, 12],
  [/b64|dwordx2/, 8],
  [/_(d16_)?(hi_)?([iu]?b?16|short)|[us]short/, 2],
  [/byte|[iu]8/, 1],
];

/** Of one lane. */
export function loadedBytes({ name }: Instruction): number {
  return WIDTHS.find(([pattern]) => pattern.test(name))?.[1] ?? 4;
}

/** How many loads from memory may be outstanding after this instruction; undefined if it does not wait for any. */
export function awaitedLoads({ name, operands }: Instruction): number | undefined {
  if (name === "s_wait_loadcnt") return Number.parseInt(operands, 16);
  if (name === "s_wait_loadcnt_dscnt") return (Number.parseInt(operands, 16) >> 8) & 63;
  if (name !== "s_waitcnt") return undefined;
  const found = /vmcnt\((\d+)\)/.exec(operands);
  return found === null ? undefined : Number(found[1]);
}
