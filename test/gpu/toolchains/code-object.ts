// What a compiled module of AMD's says of its kernels, out of the note that the loader itself reads: an ELF note of type 32
// named AMDGPU whose contents are MessagePack, key `amdhsa.kernels` (LLVM's AMDGPU usage document, code object V3 and up).
// hiprtc may wrap the ELF file in clang's offload bundle: magic, count, then offset, size and name of each file.

import { MessagePackReader, type PackedValue } from "./message-pack.js";

export interface KernelUse {
  readonly name: string;
  readonly vectorRegisters: number;
  /** Static shared memory. */
  readonly sharedBytes: number;
  /** Memory of a thread's own, off the chip: arrays that are not in registers, and spills. */
  readonly stackBytes: number;
  /** Of a thread's registers, in bytes. */
  readonly spilledBytes: number;
  /** Known of AMD's compilers only. */
  readonly launch?: LaunchProperties;
}

/** What has to be as the host believes. */
export interface LaunchProperties {
  readonly threads: number;
  readonly waveSize: number;
  readonly argumentBytes: number;
}

const BUNDLE_MAGIC = "__CLANG_OFFLOAD_BUNDLE__";
const ELF_MAGIC = "\u007fELF";
const NOTE_SEGMENT = 4;
const METADATA_NOTE = 32;
const REGISTER_BYTES = 4;

export function readCodeObject(code: Uint8Array): readonly KernelUse[] {
  const metadata = new MessagePackReader(
    metadataNote(elfFile(Buffer.from(code.buffer, code.byteOffset, code.byteLength))),
  ).value();
  const kernels = member(metadata, "amdhsa.kernels");
  if (!Array.isArray(kernels) || kernels.length === 0) throw new TypeError("the code object names no kernels");
  return kernels.map(kernelUse);
}

function kernelUse(kernel: PackedValue): KernelUse {
  const number = (key: string): number => Number(member(kernel, key) ?? 0);
  return {
    name: String(member(kernel, ".name")),
    vectorRegisters: number(".vgpr_count"),
    sharedBytes: number(".group_segment_fixed_size"),
    stackBytes: number(".private_segment_fixed_size"),
    // Spilled scalars go to lanes of vector registers first, and are in the stack's size where they do not fit.
    spilledBytes: number(".vgpr_spill_count") * REGISTER_BYTES,
    launch: {
      threads: number(".max_flat_workgroup_size"),
      waveSize: number(".wavefront_size"),
      argumentBytes: argumentBytes(kernel),
    },
  };
}

/** Of what the source declares; the compiler adds arguments of its own behind it. */
function argumentBytes(kernel: PackedValue): number {
  const all = member(kernel, ".args");
  const declared = Array.isArray(all) ? all.filter((argument) => member(argument, ".value_kind") === "by_value") : [];
  return declared.reduce(
    (end, argument) => Math.max(end, Number(member(argument, ".offset")) + Number(member(argument, ".size"))),
    0,
  );
}

function member(value: PackedValue | undefined, key: string): PackedValue | undefined {
  return value instanceof Map ? value.get(key) : undefined;
}

function elfFile(code: Buffer): Buffer {
  if (code.toString("latin1", 0, BUNDLE_MAGIC.length) !== BUNDLE_MAGIC) return code;
  let at = BUNDLE_MAGIC.length;
  const next = (): number => {
    at += 8;
    return Number(code.readBigUInt64LE(at - 8));
  };
  for (let left = next(); left > 0; left--) {
    const [offset, sizeBytes, nameBytes] = [next(), next(), next()];
    const name = code.toString("latin1", at, at + nameBytes);
    at += nameBytes;
    if (name.includes("amdgcn")) return code.subarray(offset, offset + sizeBytes);
  }
  throw new TypeError("the bundle holds no code for AMD's GPUs");
}

/** The contents of the metadata's note in a 64-bit little-endian ELF file. */
function metadataNote(elf: Buffer): Buffer {
  if (elf.toString("latin1", 0, 4) !== ELF_MAGIC) throw new TypeError("the compiler gave no ELF file");
  const [tableOffset, entryBytes, entries] = [
    Number(elf.readBigUInt64LE(32)),
    elf.readUInt16LE(54),
    elf.readUInt16LE(56),
  ];
  for (let entry = 0; entry < entries; entry++) {
    const header = tableOffset + entry * entryBytes;
    if (elf.readUInt32LE(header) !== NOTE_SEGMENT) continue;
    let at = Number(elf.readBigUInt64LE(header + 8));
    const end = at + Number(elf.readBigUInt64LE(header + 32));
    while (at + 12 <= end) {
      const [nameBytes, contentBytes, type] = [
        elf.readUInt32LE(at),
        elf.readUInt32LE(at + 4),
        elf.readUInt32LE(at + 8),
      ];
      const content = at + 12 + aligned(nameBytes);
      if (type === METADATA_NOTE && elf.toString("latin1", at + 12, at + 18) === "AMDGPU")
        return elf.subarray(content, content + contentBytes);
      at = content + aligned(contentBytes);
    }
  }
  throw new TypeError("the code object has no metadata of AMD's");
}

function aligned(sizeBytes: number): number {
  return Math.ceil(sizeBytes / 4) * 4;
}
