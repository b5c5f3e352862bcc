// The block type of each matrix of a file. The named mixes are those of llama.cpp's quantizer, so that a synthetic file
// has the size of a downloaded one: the rules are its own, without calibration. `Q4_K` alone is that type for every matrix but the output.

import { layoutByName, type SupportedTypeName } from "../../quant/layout.js";

/** The properties of a matrix that decide its type. */
interface MatrixRole {
  /** The tensor's name without the layer and `.weight`. */
  readonly part: string;
  /** Elements of a row. */
  readonly width: number;
  readonly layer: number;
  readonly layers: number;
  /** Query heads per KV head. */
  readonly queryGroup: number;
  /** Whether the embedding table is also the output matrix. */
  readonly tied: boolean;
}

type Rule = (place: MatrixRole) => SupportedTypeName;

/** By the names of matrices; those of experts are treated like those of dense networks unless they are named. */
type PartTypes = Readonly<Record<string, SupportedTypeName | Rule>>;

interface TypeMix {
  /** `general.file_type`; undefined if no number is standardised. */
  readonly fileType?: number;
  readonly base: SupportedTypeName;
  /** The type of the output matrix, also if it is the embedding table; finer than the rest, by default Q6_K. */
  readonly output?: SupportedTypeName;
  /** Types of the matrices that differ from `base`. */
  readonly parts?: PartTypes;
}

/** The first and the last eighth of the layers, and every third between. */
const moreBits = ({ layer, layers }: MatrixRole): boolean => {
  const eighth = Math.floor(layers / 8);
  return layer < eighth || layer >= Math.floor((7 * layers) / 8) || (layer - eighth) % 3 === 2;
};
const finerWhere =
  (isFine: (place: MatrixRole) => boolean, fine: SupportedTypeName, base: SupportedTypeName): Rule =>
  (place) =>
    isFine(place) ? fine : base;
const firstEighth = ({ layer, layers }: MatrixRole): boolean => layer < Math.floor(layers / 8);
const wideGroups = ({ queryGroup }: MatrixRole): boolean => queryGroup >= 4;

const medium = (base: SupportedTypeName): PartTypes => ({
  attn_v: finerWhere(moreBits, "Q6_K", base),
  ffn_down: finerWhere(moreBits, "Q6_K", base),
});
const uneven = (base: SupportedTypeName): PartTypes => ({
  attn_v: finerWhere(wideGroups, "Q5_K", base),
  ffn_down: finerWhere(firstEighth, "Q5_K", base),
});

const MIXES = {
  F32: { fileType: 0, base: "F32", output: "F32" },
  F16: { fileType: 1, base: "F16", output: "F16" },
  BF16: { fileType: 32, base: "BF16", output: "BF16" },
  Q8_0: { fileType: 7, base: "Q8_0", output: "Q8_0" },
  Q4_0: { fileType: 2, base: "Q4_0" },
  Q4_1: { fileType: 3, base: "Q4_1" },
  Q5_0: { fileType: 8, base: "Q5_0" },
  Q5_1: { fileType: 9, base: "Q5_1" },
  Q2_K: {
    fileType: 10,
    base: "Q2_K",
    parts: { attn_v: finerWhere(wideGroups, "Q4_K", "Q3_K"), attn_output: "Q3_K", ffn_down: "Q3_K" },
  },
  Q3_K_S: { fileType: 11, base: "Q3_K" },
  Q3_K_M: {
    fileType: 12,
    base: "Q3_K",
    parts: {
      attn_v: finerWhere(({ layer }) => layer < 2, "Q5_K", "Q4_K"),
      attn_output: "Q4_K",
      ffn_down: finerWhere(({ layer, layers }) => layer < Math.floor(layers / 16), "Q5_K", "Q4_K"),
    },
  },
  Q3_K_L: { fileType: 13, base: "Q3_K", parts: { attn_v: "Q5_K", attn_output: "Q5_K", ffn_down: "Q5_K" } },
  Q4_K: { base: "Q4_K" },
  Q4_K_S: {
    fileType: 14,
    base: "Q4_K",
    parts: {
      attn_v: finerWhere(({ layer }) => layer < 4, "Q5_K", "Q4_K"),
      ffn_down: finerWhere(firstEighth, "Q5_K", "Q4_K"),
    },
  },
  Q4_K_M: { fileType: 15, base: "Q4_K", parts: medium("Q4_K") },
  Q5_K_S: { fileType: 16, base: "Q5_K" },
  Q5_K_M: { fileType: 17, base: "Q5_K", parts: medium("Q5_K") },
  Q6_K: { fileType: 18, base: "Q6_K" },
  IQ4_NL: { fileType: 25, base: "IQ4_NL", parts: uneven("IQ4_NL") },
  IQ4_XS: { fileType: 30, base: "IQ4_XS", parts: uneven("IQ4_XS") },
  TQ1_0: { fileType: 36, base: "TQ1_0", parts: { token_embd: "Q4_K" } },
  TQ2_0: { fileType: 37, base: "TQ2_0", parts: { token_embd: "Q4_K" } },
  MXFP4: { base: "MXFP4", output: "Q8_0" },
  MXFP4_MOE: {
    fileType: 38,
    base: "Q8_0",
    output: "Q8_0",
    parts: { ffn_gate_exps: "MXFP4", ffn_up_exps: "MXFP4", ffn_gate_up_exps: "MXFP4", ffn_down_exps: "MXFP4" },
  },
  NVFP4: { base: "NVFP4" },
} as const satisfies Readonly<Record<string, TypeMix>>;

/** The name of a mix of types. */
export type MixName = keyof typeof MIXES;

/** The names of all mixes. */
export const MIX_NAMES = Object.keys(MIXES) as readonly MixName[];

/** The value of `general.file_type` for a mix. */
export function fileTypeOf(mix: MixName): number | undefined {
  return (MIXES[mix] as TypeMix).fileType;
}

/** Small matrices that quantizers leave as they are. */
const UNQUANTIZED = new Set(["ffn_gate_inp", "ffn_gate_inp_shexp", "per_layer_model_proj"]);

/** The type of a matrix in a mix. */
export function matrixType(mix: MixName, place: MatrixRole): SupportedTypeName {
  const { base, output = "Q6_K", parts }: TypeMix = MIXES[mix];
  const isOutput = place.part === "output" || (place.part === "token_embd" && place.tied);
  if (UNQUANTIZED.has(place.part)) return "F32";
  const special = parts?.[place.part] ?? parts?.[place.part.replace(/_(?:exps|shexp)$/, "")];
  const wanted = isOutput ? output : typeof special === "function" ? special(place) : (special ?? base);
  return fitting(wanted, place.width);
}

/** The type that the quantizer uses for rows that are not a whole number of blocks. */
const SMALLER_BLOCKS: { readonly [Type in SupportedTypeName]?: SupportedTypeName } = {
  Q2_K: "IQ4_NL",
  Q3_K: "IQ4_NL",
  Q4_K: "Q5_0",
  Q5_K: "Q5_1",
  Q6_K: "Q8_0",
  IQ4_XS: "IQ4_NL",
  TQ1_0: "Q4_0",
  TQ2_0: "Q4_0",
};

function fitting(type: SupportedTypeName, width: number): SupportedTypeName {
  const fits = (candidate: SupportedTypeName): boolean => width % layoutByName(candidate).blockElements === 0;
  if (fits(type)) return type;
  const smaller = SMALLER_BLOCKS[type];
  return smaller !== undefined && fits(smaller) ? smaller : "F16";
}
