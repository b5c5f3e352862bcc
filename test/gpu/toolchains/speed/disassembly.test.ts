import { describe, expect, it } from "vitest";
import { CARDS, occupancy, slotsPerByte } from "./cards.js";
import { awaitedLoads, isDpp, isFlat, isStreamed, loadedBytes, readDisassembly, slotsOf } from "./disassembly.js";
import { loopsOf } from "./loops.js";

/** A loop of two blocks, and a block behind the end that leads back into code after the loop. */
const TEXT = `
0000000000001000 <kernel>:
\ts_cbranch_scc1 9                                           // 000000001000: BF850009 <kernel+0x28>
\tglobal_load_dwordx4 v[30:33], v[2:3], off nt               // 000000001004: DC5E8000 1E7F0002
\ts_waitcnt vmcnt(3)                                         // 00000000100C: BF8C0F73
\ts_cbranch_vccnz 1                                          // 000000001010: BF870001 <kernel+0x18>
\tv_exp_f32_e32 v1, v2                                       // 000000001014: 7E020302
\tv_add_f32_dpp v1, v1, v1 row_ror:8 row_mask:0xf            // 000000001018: 020202FA FF002801
\ts_cbranch_scc0 65528                                       // 000000001020: BF84FFF8 <kernel+0x4>
\tv_mov_b32_e32 v1, 0                                        // 000000001024: 7E020280
\ts_endpgm                                                   // 000000001028: BF810000
\ts_branch 65533                                             // 00000000102C: BF82FFFD <kernel+0x24>
\ts_code_end                                                 // 000000001030: BF9F0000
`;

const instruction = (name: string, operands = ""): Parameters<typeof isFlat>[0] => ({ address: 0, name, operands });

describe("a disassembled kernel", () => {
  const code = readDisassembly(TEXT).get("kernel");

  it("has its instructions, without padding", () => {
    expect(code?.instructions.map(({ name }) => name)).toHaveLength(10);
    expect(code?.instructions[0].target).toBe(0x1028);
  });

  it("has loops, but none that a block behind the end makes", () => {
    const loops = loopsOf(code ?? { name: "", instructions: [] });
    expect(loops).toHaveLength(1);
    expect(loops[0].map(({ address }) => address)).toEqual([0x1004, 0x100c, 0x1010, 0x1014, 0x1018, 0x1020]);
  });

  it("tells loads, waits and costs apart", () => {
    expect(isStreamed(instruction("global_load_b128", "v[1:4], v[5:6], off th:TH_LOAD_NT"))).toBe(true);
    expect(isStreamed(instruction("global_load_b128", "v[1:4], v[5:6], off"))).toBe(false);
    expect(isFlat(instruction("flat_load_dword"))).toBe(true);
    expect(isDpp(instruction("v_mov_b32_dpp", "v1, v2 quad_perm:[1,0,3,2]"))).toBe(true);
    expect(
      [instruction("s_waitcnt", "vmcnt(7) lgkmcnt(0)"), instruction("s_wait_loadcnt", "0x1f")].map(awaitedLoads),
    ).toEqual([7, 31]);
    expect(awaitedLoads(instruction("s_waitcnt", "lgkmcnt(0)"))).toBeUndefined();
    const loads = [
      "global_load_dwordx4",
      "global_load_b64",
      "global_load_d16_b16",
      "global_load_ushort",
      "global_load_u8",
    ];
    expect(loads.map((name) => loadedBytes(instruction(name)))).toEqual([16, 8, 2, 2, 1]);
    expect(["v_exp_f32_e32", "v_fma_f32", "s_delay_alu"].map((name) => slotsOf(instruction(name)))).toEqual([4, 1, 0]);
  });
});

describe("cards", () => {
  const of = (architecture: string): (typeof CARDS)[number] => {
    const found = CARDS.find((card) => card.architecture === architecture);
    if (found === undefined) throw new TypeError(`there is no ${architecture}`);
    return found;
  };

  it("hold as many waves as registers and shared memory allow", () => {
    expect(occupancy(of("gfx1100"), { threads: 128, vectorRegisters: 96, sharedBytes: 0 })).toBe(16);
    expect(occupancy(of("gfx1100"), { threads: 128, vectorRegisters: 97, sharedBytes: 0 })).toBe(12);
    expect(occupancy(of("gfx1100"), { threads: 128, vectorRegisters: 96, sharedBytes: 40 << 10 })).toBe(3);
    expect(occupancy(of("gfx942"), { threads: 256, vectorRegisters: 128, sharedBytes: 0 })).toBe(4);
    expect(occupancy(of("gfx942"), { threads: 256, vectorRegisters: 64, sharedBytes: 33 << 10 })).toBe(1);
  });

  it("have issue slots for what their memory delivers", () => {
    expect(slotsPerByte(of("gfx1100"))).toBeCloseTo(0.46, 2);
    expect(slotsPerByte(of("gfx942"))).toBeCloseTo(0.12, 2);
  });
});
