// Writes GGUF files: for tests, for synthetic models, and for rewriting metadata. Invariants: the target appears whole
// or not at all, and every failure is FILE_WRITE with its cause. Tensor data may be a hole, so a huge model of zeros
// takes no disk space.

import { FileError, OptionError, RocmForgeError } from "../errors.js";
import { systemFailure } from "../system-failure.js";
import { whyNotWritten, writeWholeFile } from "../whole-file.js";
import { AlignedOutput } from "./aligned-output.js";
import { encodeHeader, type EncodedHeader, type HeaderPlan, type TensorPlan } from "./header-encoder.js";

/** A tensor's bytes, a function that produces them, or a hole that reads as zeros. */
export type TensorData = Uint8Array | (() => Uint8Array | Iterable<Uint8Array>) | "sparse";

/** A tensor to be written, with its data. */
export interface GgufWriterTensor extends TensorPlan {
  /** Bytes, a function that produces them when they are written, or a hole that reads as zeros. */
  readonly data: TensorData;
}

/** A GGUF file to be written: header and tensor data. */
export interface GgufPlan extends HeaderPlan {
  readonly tensors: readonly GgufWriterTensor[];
}

/** Writes a GGUF file; the file appears whole or not at all. */
export async function writeGguf(path: string, plan: GgufPlan): Promise<void> {
  const header = encodeHeader(plan);
  try {
    await writeWholeFile("gguf", path, async (handle) => {
      const output = new AlignedOutput(handle);
      await output.write(header.bytes, 0);
      for (const [index, tensor] of plan.tensors.entries()) await writeTensor(output, tensor, rangeOf(header, index));
      await output.flush();
      await handle.truncate(header.fileBytes);
    });
  } catch (error) {
    throw error instanceof RocmForgeError ? error : writeFailure(path, error);
  }
}

/** The bytes that `writeGguf` would write, in memory. */
export function encodeGguf(plan: GgufPlan): Uint8Array {
  const header = encodeHeader(plan);
  const bytes = Buffer.alloc(header.fileBytes);
  bytes.set(header.bytes);
  for (const [index, tensor] of plan.tensors.entries()) {
    const range = rangeOf(header, index);
    let done = 0;
    for (const chunk of chunksOf(tensor.data)) {
      requireFits(tensor, done + chunk.byteLength, range.sizeBytes);
      bytes.set(chunk, range.offset + done);
      done += chunk.byteLength;
    }
    requireWhole(tensor, done, range.sizeBytes);
  }
  return bytes;
}

async function writeTensor(output: AlignedOutput, tensor: GgufWriterTensor, range: Range): Promise<void> {
  let done = 0;
  for (const chunk of chunksOf(tensor.data)) {
    requireFits(tensor, done + chunk.byteLength, range.sizeBytes);
    await output.write(chunk, range.offset + done);
    done += chunk.byteLength;
  }
  requireWhole(tensor, done, range.sizeBytes);
}

type Range = EncodedHeader["ranges"][number];

function rangeOf(header: EncodedHeader, index: number): Range {
  return header.ranges[index] as Range;
}

function chunksOf(data: TensorData): Iterable<Uint8Array> {
  if (data === "sparse") return [];
  const made = typeof data === "function" ? data() : data;
  return made instanceof Uint8Array ? [made] : made;
}

function requireFits(tensor: GgufWriterTensor, foundBytes: number, sizeBytes: number): void {
  if (foundBytes > sizeBytes) throw wrongSize(tensor, `at least ${foundBytes}`, sizeBytes);
}

function requireWhole(tensor: GgufWriterTensor, foundBytes: number, sizeBytes: number): void {
  if (tensor.data !== "sparse" && foundBytes !== sizeBytes) throw wrongSize(tensor, String(foundBytes), sizeBytes);
}

function wrongSize({ name, type, shape }: GgufWriterTensor, found: string, sizeBytes: number): OptionError {
  return new OptionError(
    "OPTION_VALUE",
    `[gguf] cannot write ${name}.data: expected ${sizeBytes} bytes, found ${found}`,
    {
      details: { tensor: name, type, shape, sizeBytes },
    },
  );
}

function writeFailure(path: string, cause: unknown): FileError {
  const reason = systemFailure(cause)?.number ?? String(cause);
  return new FileError(
    "FILE_WRITE",
    `[gguf] ${path}: could not be written: ${whyNotWritten(cause)}; nothing was left behind`,
    {
      details: { path, reason },
      cause,
    },
  );
}
