// Everything behind the reader, on broken files: the tokenizer, the plan, the loading of weights and a step of the
// model. Headers are broken by the reader's fuzzer; here tensor contents are broken too.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import { RocmForgeError } from "../../src/errors.js";
import { GgufFile } from "../../src/gguf/file.js";
import { GgufLoader } from "../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../src/plan/execution-plan.js";
import { requireFinite } from "../../src/plan/output-row.js";
import { createTokenizer } from "../../src/tokenizer/tokenizer.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { mapHeader } from "./gguf-fields.js";
import { fuzz, type FuzzReport, modelBase } from "./gguf-mutation.js";
import { Dice } from "../support/dice.js";

const REAL_MODEL = new URL("../fixtures/models/fable-3m-qwen2-Q4_K_M.gguf", import.meta.url);
const TEXT = "Once upon a time\n\tthere was… 🙂 <|endoftext|> 12345";
const MAX_CORRUPTIONS = 8;

/** Encodes, decodes and runs three tokens; anything but success or a RocmForgeError is a finding. */
export async function useModel(file: GgufFile): Promise<void> {
  const tokenizer = createTokenizer(file.metadata);
  const decoded = tokenizer.decode(tokenizer.encode(TEXT));
  if (typeof decoded !== "string") throw new TypeError("decode returned no text");
  await using loader = new GgufLoader(file);
  await using plan = ExecutionPlan.fromLoader(loader, new ReferenceBackend());
  using kvCache = plan.createKvCache(3);
  const rows = await plan.step(
    {
      tokens: Int32Array.of(0, plan.program.vocabularySize - 1, 0),
      positions: Int32Array.of(0, 1, 2),
      sequenceOffsets: Int32Array.of(0, 3),
      blockTables: [Int32Array.from({ length: kvCache.options.blocks }, (_, block) => block)],
      outputs: [0, 1, 2].map((row) => ({ row, want: { kind: "candidates", count: 4 } as const })),
    },
    kvCache,
  );
  for (const row of rows.map(requireFinite)) {
    if (row.kind !== "candidates" || !Number.isFinite(row.logSum)) throw new TypeError("a row that is not finite");
  }
}

/** Overwrites ranges of tensor data with noise or with the bit patterns of NaN and infinity. */
function corrupt(bytes: Buffer, dataStart: number, dice: Dice): void {
  for (let count = 1 + dice.below(MAX_CORRUPTIONS); count > 0; count--) {
    const start = dataStart + dice.below(bytes.length - dataStart);
    const end = Math.min(bytes.length, start + 1 + dice.below(64));
    const fill = dice.pick([0x00, 0x7c, 0x7e, 0xff, undefined]);
    for (let at = start; at < end; at++) bytes[at] = fill ?? dice.below(256);
  }
}

export interface HeaderReport extends FuzzReport {
  /** How many of the broken files still ran. */
  readonly ran: number;
}

/** `ROCMFORGE_FUZZ_SEED=n` reproduces the case with that seed, alone. */
export async function fuzzHeaders(seed: number, cases: number): Promise<HeaderReport> {
  let ran = 0;
  const inspect = async (file: GgufFile): Promise<void> => {
    await useModel(file);
    ran++;
  };
  const given = process.env["ROCMFORGE_FUZZ_SEED"];
  const range = given === undefined ? { seed, cases } : { seed: Number(given), cases: 1 };
  return { ...(await fuzz({ ...range, bases: [modelBase()], inspect })), ran };
}

export interface ContentReport {
  readonly ran: number;
  readonly refused: ReadonlyMap<string, number>;
}

export async function fuzzContents(firstSeed: number, cases: number): Promise<ContentReport> {
  using folder = new TemporaryFolder();
  const base = readFileSync(REAL_MODEL);
  const { headerBytes } = mapHeader(base);
  const refused = new Map<string, number>();
  let ran = 0;
  for (let seed = firstSeed; seed < firstSeed + cases; seed++) {
    const bytes = Buffer.from(base);
    corrupt(bytes, headerBytes, new Dice(seed));
    const path = folder.file(`seed-${seed}.gguf`);
    writeFileSync(path, bytes);
    try {
      using file = await GgufFile.open(path);
      await useModel(file);
      ran++;
    } catch (error) {
      if (!(error instanceof RocmForgeError)) throw new Error(`contents with seed ${seed}`, { cause: error });
      refused.set(error.code, (refused.get(error.code) ?? 0) + 1);
    }
    rmSync(path);
  }
  return { ran, refused };
}
