// The mutation fuzzer for everything that reads a GGUF file. A case is a seed: it picks a base file, breaks it,
// opens it, touches all it holds, and passes only if that succeeds or ends in a RocmForgeError, in bounded time and
// memory. A case that fails names its seed; `ROCMFORGE_FUZZ_SEED=n` with one case makes it again.

import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { RocmForgeError } from "../../src/errors.js";
import type { GgufArray } from "../../src/gguf/array.js";
import { arr, bool, f32, f64, i16, i32, i64, i8, str, u16, u32, u64, u8 } from "../../src/gguf/entry.js";
import { GgufFile } from "../../src/gguf/file.js";
import { encodeGguf } from "../../src/gguf/writer.js";
import { mapHeader, type HeaderField, type HeaderMap } from "./gguf-fields.js";
import { Dice } from "../support/dice.js";

export interface FuzzOptions {
  /** The first case's seed; the others follow it. */
  readonly seed: number;
  readonly cases: number;
  /** The base files to break; by default all of them. */
  readonly bases?: readonly Base[];
  /** What else to do with a file that opened, within the same limits. */
  readonly inspect?: (file: GgufFile) => Promise<void>;
  readonly maxCaseMs?: number;
  readonly maxCaseBytes?: number;
}

export interface FuzzReport {
  readonly opened: number;
  /** How often each error code occurred. */
  readonly refused: ReadonlyMap<string, number>;
  readonly slowestMs: number;
  readonly largestBytes: number;
}

export interface Base {
  readonly header: Buffer;
  readonly map: HeaderMap;
  /** The data behind the header is a hole of this size: the reader never looks inside tensors. */
  readonly dataBytes: number;
}

export const MAX_CASE_MS = 10_000;
export const MAX_CASE_BYTES = 64 * 1024 * 1024;
/** A case that never returns cannot be timed from its own thread. */
const HANG_MS = 30_000;
/** How many mutations a case has: mostly one, because most files do not survive two. */
const MUTATION_COUNTS = [1, 1, 1, 1, 2, 3];
const TOUCHED_ELEMENTS = 4_096;
const READ_BYTES = 256 * 1024;
const REAL_MODEL = new URL("../fixtures/models/fable-3m-qwen2-Q4_K_M.gguf", import.meta.url);

export function baseOf(bytes: Buffer): Base {
  const map = mapHeader(bytes);
  return { header: Buffer.from(bytes.subarray(0, map.headerBytes)), map, dataBytes: bytes.length - map.headerBytes };
}

/** A file with a few of everything that the format has. */
function syntheticFile(): Buffer {
  const inner = [arr("", "uint16", [1, 2]), arr("", "string", ["a", "b"])].map(({ value }) => value as GgufArray);
  return Buffer.from(
    encodeGguf({
      metadata: [
        str("general.architecture", "llama"),
        u32("general.alignment", 32),
        u16("split.count", 1),
        u8("u8", 1),
        i8("i8", -1),
        u16("u16", 2),
        i16("i16", -2),
        u32("u32", 3),
        i32("i32", -3),
        u64("u64", 4),
        i64("i64", -4),
        f32("f32", 0.5),
        f64("f64", 0.25),
        bool("flag", true),
        str("text", "once upon a time"),
        arr(
          "tokens",
          "string",
          Array.from({ length: 70 }, (_, index) => `token ${index}`),
        ),
        arr("scores", "float32", new Float32Array(70)),
        arr("flags", "bool", [true, false]),
        arr("nested", "array", inner),
      ],
      tensors: [
        { name: "token_embd.weight", type: "Q4_K", shape: [256, 3], data: "sparse" },
        { name: "blk.0.attn_q.weight", type: "F16", shape: [32, 4, 2, 2], data: "sparse" },
        { name: "output_norm.weight", type: "F32", shape: [32], data: "sparse" },
      ],
    }),
  );
}

export function fuzzBases(): readonly Base[] {
  return [baseOf(syntheticFile()), modelBase()];
}

/** A file that a whole model can run from. */
export function modelBase(): Base {
  return baseOf(readFileSync(REAL_MODEL));
}

type Mutation = (bytes: Buffer, dice: Dice, base: Base) => Buffer;

function readField(bytes: Buffer, { offset, widthBytes }: HeaderField): bigint {
  return widthBytes === 8 ? bytes.readBigUInt64LE(offset) : BigInt(bytes.readUIntLE(offset, widthBytes));
}

function writeField(bytes: Buffer, { offset, widthBytes }: HeaderField, value: bigint): Buffer {
  if (widthBytes === 8) bytes.writeBigUInt64LE(BigInt.asUintN(64, value), offset);
  else bytes.writeUIntLE(Number(BigInt.asUintN(widthBytes * 8, value)), offset, widthBytes);
  return bytes;
}

/** A field that the previous mutations have left inside the bytes. */
function pickField(bytes: Buffer, dice: Dice, { map }: Base): HeaderField | undefined {
  const field = dice.pick(dice.pick([map.fields, map.fields, map.valueFields, map.valueFields, map.elementFields]));
  return field.offset + field.widthBytes <= bytes.length ? field : undefined;
}

const EXTREMES: readonly bigint[] = [
  0n,
  1n,
  2n,
  255n,
  2n ** 16n,
  2n ** 31n - 1n,
  2n ** 31n,
  2n ** 32n - 1n,
  2n ** 32n,
  2n ** 53n,
  2n ** 63n - 1n,
  2n ** 63n,
  2n ** 64n - 32n,
  2n ** 64n - 1n,
];

const MUTATIONS: readonly Mutation[] = [
  function flipBit(bytes, dice) {
    const at = dice.below(bytes.length);
    if (at < bytes.length) bytes[at] = (bytes[at] as number) ^ (1 << dice.below(8));
    return bytes;
  },
  function replaceByte(bytes, dice) {
    const at = dice.below(bytes.length);
    if (at < bytes.length) bytes[at] = dice.below(256);
    return bytes;
  },
  function extremeInteger(bytes, dice, base) {
    const field = pickField(bytes, dice, base);
    return field === undefined
      ? bytes
      : writeField(bytes, field, dice.pick([...EXTREMES, BigInt(bytes.length), BigInt(bytes.length + base.dataBytes)]));
  },
  function nudgeInteger(bytes, dice, base) {
    const field = pickField(bytes, dice, base);
    return field === undefined
      ? bytes
      : writeField(bytes, field, readField(bytes, field) + dice.pick([-32n, -8n, -1n, 1n, 8n, 32n]));
  },
  function exchangeIntegers(bytes, dice, base) {
    const [left, right] = [pickField(bytes, dice, base), pickField(bytes, dice, base)];
    if (left === undefined || right === undefined) return bytes;
    const kept = readField(bytes, left);
    return writeField(writeField(bytes, left, readField(bytes, right)), right, kept);
  },
  function changeCount(bytes, dice, base) {
    const [tensors, keys] = base.map.fields.slice(1, 3) as [HeaderField, HeaderField];
    if (bytes.length < 24) return bytes;
    const field = dice.pick([tensors, keys]);
    return writeField(bytes, field, readField(bytes, field) + BigInt(dice.below(9) - 4));
  },
  function truncate(bytes, dice) {
    return bytes.subarray(0, dice.below(bytes.length + 1));
  },
  function remove(bytes, dice) {
    const at = dice.below(bytes.length);
    return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + dice.below(64))]);
  },
  function insert(bytes, dice) {
    const at = dice.below(bytes.length);
    const inserted = Buffer.from(Array.from({ length: 1 + dice.below(64) }, () => dice.below(256)));
    return Buffer.concat([bytes.subarray(0, at), inserted, bytes.subarray(at)]);
  },
  function splice(bytes, dice) {
    const from = dice.below(bytes.length);
    bytes.copy(bytes, dice.below(bytes.length), from, from + 1 + dice.below(512));
    return bytes;
  },
];

/** The header of the base, broken one to three times; the same seed breaks it the same way. */
export function mutate(base: Base, dice: Dice): Buffer {
  let bytes = Buffer.from(base.header);
  for (let count = dice.pick(MUTATION_COUNTS); count > 0; count--)
    bytes = Buffer.from(dice.pick(MUTATIONS)(bytes, dice, base));
  return bytes;
}

function touchArray(array: GgufArray): void {
  if (array.length > 0) for (const index of [0, array.length - 1]) array.at(index);
  if (array.elementType === "string") {
    if (array.length > 0) array.bytesAt(array.length - 1);
    array.toStrings();
  } else if (array.elementType !== "array") {
    array.toNumbers();
  }
  let touched = 0;
  for (const element of array) {
    if (typeof element === "object") touchArray(element);
    if (++touched >= TOUCHED_ELEMENTS) break;
  }
}

/** Reads every value, every array, every byte of every tensor. */
async function touch(file: GgufFile, views: boolean): Promise<void> {
  for (const { key, value } of file.metadata.entries()) {
    if (typeof value !== "object") file.metadata.get(key);
    // Each array is read separately, because each may be refused by itself.
    else ignoringRefusal(() => touchArray(value));
  }
  const target = new Uint8Array(READ_BYTES);
  for (const tensor of file.tensors.values()) {
    for (let offset = 0; offset < tensor.sizeBytes; offset += READ_BYTES) {
      await file.readTensor(tensor, target.subarray(0, Math.min(READ_BYTES, tensor.sizeBytes - offset)), offset);
    }
    if (!views) continue;
    file.adviseWillNeed(tensor);
    const view = file.mappedView(tensor);
    if (view !== undefined && view.byteLength !== tensor.sizeBytes)
      throw new Error(`a view of ${view.byteLength} bytes for ${tensor.name}`);
    view?.at(-1);
  }
}

function ignoringRefusal(action: () => void): void {
  try {
    action();
  } catch (error) {
    if (!(error instanceof RocmForgeError)) throw error;
  }
}

function heldBytes(): number {
  const { arrayBuffers, heapUsed } = process.memoryUsage();
  return arrayBuffers + heapUsed;
}

/** Kills this process, naming the case, if a case does not return. */
class Watchdog implements Disposable {
  readonly #current = new Int32Array(new SharedArrayBuffer(8));
  readonly #worker: Worker;

  constructor() {
    const code = `
      const { workerData: current } = require("node:worker_threads");
      let last = -1;
      setInterval(() => {
        const beat = Atomics.load(current, 0);
        if (beat === last) {
          require("node:fs").writeSync(2, "fuzz case with seed " + Atomics.load(current, 1) + " hangs; stopping\\n");
          process.kill(process.pid, "SIGKILL");
        }
        last = beat;
      }, ${HANG_MS});`;
    this.#worker = new Worker(code, { eval: true, workerData: this.#current });
    this.#worker.unref();
  }

  beat(seed: number): void {
    Atomics.store(this.#current, 1, seed);
    Atomics.add(this.#current, 0, 1);
  }

  [Symbol.dispose](): void {
    void this.#worker.terminate();
  }
}

export async function fuzz(options: FuzzOptions): Promise<FuzzReport> {
  const folder = mkdtempSync(join(tmpdir(), "rocmforge-fuzz-"));
  try {
    return await runCases(folder, options);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runCases(folder: string, options: FuzzOptions): Promise<FuzzReport> {
  const {
    seed: firstSeed,
    cases,
    bases = fuzzBases(),
    inspect,
    maxCaseMs = MAX_CASE_MS,
    maxCaseBytes = MAX_CASE_BYTES,
  } = options;
  const refused = new Map<string, number>();
  let [opened, slowestMs, largestBytes] = [0, 0, 0];
  using watchdog = new Watchdog();
  for (let seed = firstSeed; seed < firstSeed + cases; seed++) {
    watchdog.beat(seed);
    const dice = new Dice(seed);
    const base = dice.pick(bases);
    const bytes = mutate(base, dice);
    // The seed is in the name, so that a crash of the whole process identifies its case.
    const path = join(folder, `seed-${seed}.gguf`);
    writeFileSync(path, bytes);
    if (dice.below(8) > 0) truncateSync(path, bytes.length + base.dataBytes);
    const [startMs, startBytes] = [performance.now(), heldBytes()];
    try {
      using file = await GgufFile.open(path, { mapping: dice.below(2) === 0 ? "auto" : "off" });
      opened++;
      await touch(file, dice.below(2) === 0);
      await inspect?.(file);
    } catch (error) {
      if (!(error instanceof RocmForgeError))
        throw new Error(`fuzz case with seed ${seed} threw something that is not a RocmForgeError`, { cause: error });
      refused.set(error.code, (refused.get(error.code) ?? 0) + 1);
    }
    const [caseMs, caseBytes] = [performance.now() - startMs, heldBytes() - startBytes];
    if (caseMs > maxCaseMs) throw new Error(`fuzz case with seed ${seed} took ${Math.round(caseMs)} ms`);
    if (caseBytes > maxCaseBytes) throw new Error(`fuzz case with seed ${seed} allocated ${caseBytes} bytes`);
    [slowestMs, largestBytes] = [Math.max(slowestMs, caseMs), Math.max(largestBytes, caseBytes)];
    rmSync(path);
  }
  return { opened, refused, slowestMs, largestBytes };
}
