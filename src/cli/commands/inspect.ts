// `rocmforge inspect`: everything a model file says about itself, and how its bytes are distributed. Loads no tensor.

import type { LayerSpec } from "../../architectures/layer.js";
import { GgufFile } from "../../gguf/file.js";
import { formatShape } from "../../tensor/descriptor.js";
import { defineCommand } from "../command.js";
import {
  describeCount,
  countOf,
  formatBar,
  formatBytes,
  formatCount,
  formatRanges,
  formatShare,
  formatTable,
  printable,
  quotedForTerminal,
  wordsOf,
} from "../format.js";
import { expandHome } from "../home-path.js";
import { type ByteShare, inspectFile, type Inspection, type ShownValue } from "../inspection.js";
import { modelFile } from "../model-file.js";
import { GENERAL_OPTIONS, MODEL_OPTION } from "../model-options.js";
import { type OptionTable, wrongValue } from "../option-table.js";
import { reachText } from "../program-text.js";

const NAME = "inspect";
const BAR_WIDTH = 40;
const SHOWN_CHARACTERS = 60;

const OPTIONS = {
  json: { kind: "flag", description: "print one JSON object; long arrays are replaced by their length" },
  ...MODEL_OPTION,
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The command `inspect`. */
export const inspect = defineCommand({
  name: NAME,
  summary: "shows the contents of a model file",
  about: ["Works for every well-formed GGUF file, even if its architecture or types are not supported."],
  positionals: ["MODEL"],
  options: OPTIONS,
  examples: [
    { what: "hyper-parameters, tensors and where the bytes go", line: "rocmforge inspect model.gguf" },
    { what: "the same as JSON", line: "rocmforge inspect model.gguf --json" },
  ],
  async run(values, [path], { output }) {
    if (path !== undefined && values.model !== undefined)
      throw wrongValue(NAME, "model", "either MODEL or --model", "both");
    const model = path === undefined ? values.model : expandHome(path);
    using file = await GgufFile.open(await modelFile({ ...values, model }));
    const { inspection, failure } = inspectFile(file);
    if (values.json) await output.writeJson(inspection);
    else await output.write(describe(inspection));
    if (failure !== undefined) throw failure;
    return 0;
  },
});

function describe(inspection: Inspection): string {
  const { path, version, alignment, sizeBytes, parts, mapping, tensors } = inspection;
  const partLines = parts.map((part) => [
    printable(part.path),
    formatBytes(part.sizeBytes),
    countOf(part.tensorCount, "tensor"),
  ]);
  return [
    printable(path),
    `  GGUF version ${version}, ${formatBytes(sizeBytes)}, alignment ${alignment}, ${mapping.mapped ? "mapped" : "not mapped"}: ${mapping.reason}`,
    ...(parts.length === 1 ? [] : ["", `parts (${parts.length})`, formatTable(partLines)]),
    ...describeArchitecture(inspection),
    ...describeTokenizer(inspection),
    ...describeSampling(inspection),
    "",
    `metadata (${countOf(Object.keys(inspection.metadata).length, "key")})`,
    formatTable(Object.entries(inspection.metadata).map(([key, value]) => [printable(key), formatValue(value)])),
    "",
    `bytes by purpose (${formatBytes(sizeBytes)})`,
    formatShares(inspection.bytesByRole),
    ...(tensors.length === 0 ? [] : describeTensors(inspection)),
    "",
  ].join("\n");
}

function describeArchitecture(inspection: Inspection): string[] {
  const { architecture, parameters, parameterCount, kvCacheGroups = [], tensors } = inspection;
  const name = architecture.name === undefined ? "not stated" : printable(architecture.name);
  const verdict = architecture.supported ? "supported" : "not supported";
  const lines = ["", `architecture: ${name} (${verdict})`];
  if (architecture.problem !== undefined) lines.push(`  ${printable(architecture.problem)}`);
  if (tensors.length === 0) lines.push("  the file has no tensors: it is a vocabulary only");
  if (parameters === undefined) return lines;
  const { architecture: _name, layers, ...rest } = parameters;
  return [
    ...lines,
    "",
    "hyper-parameters",
    formatTable([
      ...(parameterCount === undefined ? [] : [["parameters", describeCount(parameterCount)]]),
      ["layers", formatNumber(layers.length)],
      ...kvCacheGroups.map(({ layers: members, bytesPerToken, ...reach }) => [
        "KV cache",
        `${formatBytes(bytesPerToken)} a token in f16 of ${countOf(members, "layer")}: ${reachText(reach)}`,
      ]),
      ...parameterRows("", rest),
    ]),
    ...describeLayerSpecs(layers),
  ];
}

/** Layers that are alike are shown once: "layers 0-4, 6-10". */
function describeLayerSpecs(layers: readonly LayerSpec[]): string[] {
  const groups = new Map<string, number[]>();
  for (const [index, layer] of layers.entries()) {
    const key = JSON.stringify(layer);
    groups.set(key, [...(groups.get(key) ?? []), index]);
  }
  return [...groups.values()].flatMap((indices) => [
    "",
    `layer${indices.length === 1 ? "" : "s"} ${formatRanges(indices)}`,
    formatTable(parameterRows("", layers[indices[0]])),
  ]);
}

/** Rows of hyper-parameters; the names of groups are prefixed: "rope scaling factor". */
function parameterRows(prefix: string, parameters: object): string[][] {
  return Object.entries(parameters).flatMap(([key, value]: [string, unknown]) => {
    const name = `${prefix}${wordsOf(key)}`;
    if (typeof value === "object" && value !== null) return parameterRows(`${name} `, value);
    return [[name, typeof value === "number" ? formatNumber(value) : String(value)]];
  });
}

function describeTokenizer({ tokenizer }: Inspection): string[] {
  if (tokenizer === undefined) return ["", "tokenizer: none in the file"];
  const { model, preTokenizer, vocabularySize, merges, specialTokens, suppressedTokens } = tokenizer;
  const rows = [
    ["model", model === undefined ? "not stated" : printable(model)],
    ["pre-tokenizer", preTokenizer === undefined ? "not stated" : printable(preTokenizer)],
    ["vocabulary", countOf(vocabularySize, "token")],
    ...(merges === 0 ? [] : [["merges", formatCount(merges)]]),
    ...specialTokens.map(({ role, id, text }) => [
      `${printable(role)} token`,
      `${id}  ${text === undefined ? "outside the vocabulary" : quotedForTerminal(text, SHOWN_CHARACTERS)}`,
    ]),
    ...(suppressedTokens === 0 ? [] : [["never chosen", countOf(suppressedTokens, "token")]]),
  ];
  return ["", "tokenizer", formatTable(rows)];
}

function describeSampling({ sampling: { options, ignoredKeys } }: Inspection): string[] {
  const rows = [
    ...Object.entries(options).map(([option, value]) => [wordsOf(option), String(value)]),
    ...ignoredKeys.map((key) => [printable(key), "ignored: unknown, or no value that the sampler can use"]),
  ];
  return rows.length === 0 ? [] : ["", "recommended sampling", formatTable(rows)];
}

function describeTensors({ bytesByType, tensors }: Inspection): string[] {
  const rows = tensors.map(({ name, type, shape, sizeBytes }) => [
    printable(name),
    type,
    formatShape(shape),
    formatBytes(sizeBytes),
  ]);
  const unsupported = bytesByType.filter(({ supported }) => !supported).map(({ name }) => name);
  return [
    "",
    "bytes by type",
    formatShares(bytesByType),
    ...(unsupported.length === 0 ? [] : [`  not supported, so the model cannot be run: ${unsupported.join(", ")}`]),
    "",
    `tensors (${formatCount(tensors.length)})`,
    formatTable(rows, ["left", "left", "right", "right"]),
  ];
}

function formatShares(shares: readonly ByteShare[]): string {
  const rows = shares.map(({ name, tensors, sizeBytes, share }) => [
    name,
    formatBytes(sizeBytes),
    formatShare(share),
    tensors === 0 ? "" : countOf(tensors, "tensor"),
    formatBar(share, BAR_WIDTH),
  ]);
  return formatTable(rows, ["left", "right", "right", "right", "left"]);
}

function formatValue(value: ShownValue): string {
  if (typeof value === "string") return quotedForTerminal(value, SHOWN_CHARACTERS);
  if (typeof value === "number") return formatNumber(value);
  if (typeof value === "boolean") return String(value);
  if ("elementType" in value)
    return `${formatCount(value.length)} ${value.elementType === "string" ? "strings" : `of type ${value.elementType}`}`;
  return `[${value.map(formatValue).join(", ")}]`;
}

/** Rounds to single precision: 1e-5 stored in 32 bits reads as 0.000009999999747378752. */
function formatNumber(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(7)));
}
