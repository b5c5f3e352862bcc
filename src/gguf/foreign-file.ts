// Recognises files that are not GGUF by their first bytes, and says what to do about them. People download a pointer, a
// web page or the same model in another format, and a message about magic bytes does not help them. Nothing is trusted:
// a few hundred bytes are examined, numbers in them are only compared, and text from them is quoted and shortened.

import { quote } from "./value.js";

/** Enough for a tar's magic at offset 257, a pointer file, or the first lines of a page. */
export const PROBE_BYTES = 1024;
const SHOWN_CHARACTERS = 60;

/** A recognised file that is not GGUF, and what its owner can do. */
interface ForeignFile {
  /** What the file is, as the end of a sentence: `a web page`. */
  readonly found: string;
  readonly advice: string;
}

/** The first bytes of a file, and its total size. */
interface Probe {
  readonly bytes: Buffer;
  readonly sizeBytes: number;
}

const CONVERT = "use a GGUF of the same model, or convert it with llama.cpp's convert_hf_to_gguf.py";
const UNPACK = "unpack it, and open the .gguf file inside";
const DOWNLOAD_AGAIN = "download it again";
const DOWNLOAD_ITSELF = "download the file itself: on Hugging Face its link has /resolve/ in it, not /blob/";

/** Formats by their magic bytes at offset 0. */
const MAGICS: readonly (readonly [magic: string, found: string, advice: string])[] = [
  // 0x67676d6c and its successors, little-endian.
  ["lmgg", "a model in GGML, the format before GGUF", "use a GGUF of the same model"],
  ["fmgg", "a model in GGMF, a format before GGUF", "use a GGUF of the same model"],
  ["tjgg", "a model in GGJT, the format before GGUF", "use a GGUF of the same model"],
  ["algg", "a LoRA adapter in a format before GGUF", "merge it into its base model and convert that to GGUF"],
  ["\x80\x02", "a PyTorch checkpoint (pickle)", CONVERT],
  ["\x80\x04", "a PyTorch checkpoint (pickle)", CONVERT],
  ["\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes models", CONVERT],
  ["\x93NUMPY", "a NumPy array", CONVERT],
  ["\x1f\x8b", "a gzip archive", UNPACK],
  ["\x28\xb5\x2f\xfd", "a zstd archive", UNPACK],
  ["\xfd7zXZ\0", "an xz archive", UNPACK],
  ["BZh", "a bzip2 archive", UNPACK],
  ["7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK],
  ["Rar!", "a rar archive", UNPACK],
  ["%PDF-", "a PDF document", DOWNLOAD_ITSELF],
  ["\x7fELF", "a program", "name the model file"],
];

/** The kind of file that this is instead of GGUF; undefined if it resembles no known format. */
export function recogniseForeignFile(probe: Probe): ForeignFile | undefined {
  for (const recognise of RECOGNISERS) {
    const found = recognise(probe);
    if (found !== undefined) return found;
  }
  return undefined;
}

const RECOGNISERS: readonly ((probe: Probe) => ForeignFile | undefined)[] = [
  emptyFile,
  pointer,
  byMagic,
  zip,
  safetensors,
  oldImportanceMatrix,
  tar,
  onnx,
  text,
];

function emptyFile({ bytes, sizeBytes }: Probe): ForeignFile | undefined {
  if (sizeBytes === 0) return { found: "an empty file", advice: DOWNLOAD_AGAIN };
  const isBlank = bytes.every((byte) => byte === 0);
  return isBlank
    ? {
        found: "zeros only, as in a download that has not written its data yet",
        advice: `wait for it to end, or ${DOWNLOAD_AGAIN}`,
      }
    : undefined;
}

function pointer({ bytes }: Probe): ForeignFile | undefined {
  const written = bytes.toString("latin1");
  if (!written.startsWith("version https://git-lfs.github.com/spec/")) return undefined;
  const size = /^size (?<size>\d{1,15})$/m.exec(written)?.groups?.["size"];
  const whole = size === undefined ? "" : ` of ${size} bytes`;
  return {
    found: `a Git LFS pointer to a file${whole}`,
    advice: "run `git lfs install` and `git lfs pull` in its repository, or download the file itself",
  };
}

function byMagic({ bytes }: Probe): ForeignFile | undefined {
  const start = bytes.toString("latin1", 0, 16);
  const known = MAGICS.find(([magic]) => start.startsWith(magic));
  return known === undefined ? undefined : { found: known[1], advice: known[2] };
}

/** PyTorch writes its checkpoints as zip archives with `data.pkl` first. */
function zip({ bytes }: Probe): ForeignFile | undefined {
  const start = bytes.toString("latin1");
  if (!start.startsWith("PK\x03\x04") && !start.startsWith("PK\x05\x06")) return undefined;
  return /\/data\.pkl|\/version|\.data\/serialization_id/.test(start.slice(0, 256))
    ? { found: "a PyTorch checkpoint", advice: CONVERT }
    : { found: "a zip archive", advice: UNPACK };
}

/** A safetensors file: a 64-bit length, then that much JSON. */
function safetensors({ bytes, sizeBytes }: Probe): ForeignFile | undefined {
  if (bytes.length < 16) return undefined;
  const headerBytes = bytes.readBigUInt64LE(0);
  const opens = /^\{\s*(?:"|\})/.test(bytes.toString("latin1", 8, 40));
  if (!opens || headerBytes < 2n || headerBytes + 8n > BigInt(sizeBytes)) return undefined;
  return { found: "a safetensors file", advice: CONVERT };
}

/** llama.cpp's former `imatrix.dat`: a count, then a length and the name of a tensor. */
function oldImportanceMatrix({ bytes }: Probe): ForeignFile | undefined {
  if (bytes.length < 32) return undefined;
  const [count, nameBytes] = [bytes.readUInt32LE(0), bytes.readUInt32LE(4)];
  const isName =
    count > 0 &&
    count < 100_000 &&
    nameBytes > 0 &&
    nameBytes < 128 &&
    /^(?:blk\.\d+\.|output\.|token_embd\.)/.test(bytes.toString("latin1", 8, 24));
  return isName
    ? { found: "an importance matrix (imatrix), which steers quantisation", advice: "name the model file" }
    : undefined;
}

function tar({ bytes }: Probe): ForeignFile | undefined {
  return bytes.toString("latin1", 257, 262) === "ustar" ? { found: "a tar archive", advice: UNPACK } : undefined;
}

/** An ONNX file: a protocol buffer with the format's version, then the producer's name. */
function onnx({ bytes }: Probe): ForeignFile | undefined {
  const isModel =
    bytes.length > 16 && bytes[0] === 0x08 && bytes[1] > 0 && bytes[1] < 32 && bytes[2] === 0x12 && bytes[3] < 64;
  return isModel && /^[\x20-\x7e]+$/.test(bytes.toString("latin1", 4, 4 + Math.min(bytes[3], 8)))
    ? { found: "an ONNX model", advice: CONVERT }
    : undefined;
}

function text({ bytes }: Probe): ForeignFile | undefined {
  const written = bytes
    .toString("utf8")
    .replace(/^\u{feff}/u, "")
    .trimStart();
  if (/^<(?:!doctype\s+html|html|head|body)\b/i.test(written))
    return { found: "a web page (HTML)", advice: DOWNLOAD_ITSELF };
  if (!isText(bytes)) return undefined;
  if (/^\{[^]*"weight_map"/.test(written)) return { found: "the index of a safetensors model (JSON)", advice: CONVERT };
  const kind = /^[[{]/.test(written) ? "JSON" : written.startsWith("<") ? "XML" : "text";
  const [line = ""] = written.split(/[\r\n]/, 1);
  const shown = line.length > SHOWN_CHARACTERS ? `${line.slice(0, SHOWN_CHARACTERS)}…` : line;
  return {
    found: `${kind} that begins ${quote(shown)}`,
    advice: `if it was downloaded, the download failed: ${DOWNLOAD_AGAIN}`,
  };
}

/**
 * Whether the bytes are text: no control characters except white space, and valid UTF-8 up to a character that the
 * probe may have cut.
 */
function isText(bytes: Buffer): boolean {
  if (bytes.some((byte) => byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d)) return false;
  const broken = bytes.toString("utf8").indexOf("\u{fffd}");
  return broken === -1 || Buffer.byteLength(bytes.toString("utf8").slice(0, broken)) >= PROBE_BYTES - 4;
}
