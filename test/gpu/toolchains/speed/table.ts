// The figures of docs/amd.md: one table for each card, between two marks, with what they were before in figures-before.json.br
// where that differs; and one of products of halves and of bytes.

import { fileURLToPath } from "node:url";
import { readPacked } from "../../../support/packed-json.js";
import type { ComparedGemms, GemmCost } from "./int8-gemms.js";
import { type Card, LATENCY_NS, neededBytes, slotsPerByte } from "./cards.js";
import type { MeasuredKernel } from "./measure.js";

export const DOCUMENT = fileURLToPath(new URL("../../../../docs/amd.md", import.meta.url));
const BEFORE = new URL("figures-before.json.br", import.meta.url);
const MARKS = ["<!-- figures -->", "<!-- end of figures -->"] as const;
const GEMM_MARKS = ["<!-- products -->", "<!-- end of products -->"] as const;

/** What is shown of a kernel, by column. */
export type Shown = Readonly<Record<(typeof COLUMNS)[number], string>>;
export type ShownFigures = Readonly<Record<string, Readonly<Record<string, Shown>>>>;

const COLUMNS = [
  "registers",
  "LDS KB",
  "waves",
  "slots",
  "mca",
  "wait",
  "in flight",
  "LDS loads",
  "exchanges",
] as const;

export function shownFigures(measured: readonly MeasuredKernel[]): Readonly<Record<string, Shown>> {
  return Object.fromEntries(measured.map((kernel) => [kernel.hot.label, shown(kernel)]));
}

function shown({ hot, figures, modelCycles }: MeasuredKernel): Shown {
  const { registers, stackBytes, sharedBytes, waves, occupancy, matrix, bytesInFlight, flat } = figures;
  const percent = (part: number): string => `${((part / figures.budget) * 100).toFixed(0)} %`;
  const perByte = modelCycles === undefined ? undefined : (modelCycles / figures.slots) * figures.slotsPerByte;
  const perMatrix = (count: number): string =>
    matrix === 0 ? String(count) : `${(count / matrix).toFixed(1)} a matmul`;
  return {
    registers: `${registers}${stackBytes > 0 ? `, ${stackBytes} B of stack` : ""}${flat > 0 ? `, ${flat} flat` : ""}`,
    "LDS KB": (sharedBytes / 1024).toFixed(1),
    waves: `${waves.toFixed(1)} of ${occupancy.toFixed(1)}`,
    slots:
      hot.kind === "matrix"
        ? `${(figures.slots / Math.max(1, matrix)).toFixed(0)} a matmul`
        : `${percent(figures.vectorSlotsPerByte)} of ${percent(figures.slotsPerByte)}`,
    mca: hot.kind === "matrix" || perByte === undefined ? "" : percent(perByte),
    wait: String(figures.waitDistance),
    "in flight": hot.kind === "stream" ? `${mb(bytesInFlight)} of ${mb(figures.neededBytes)}` : mb(bytesInFlight),
    exchanges: `${figures.dpp} + ${figures.laneExchanges}`,
    "LDS loads": hot.kind === "stream" ? "" : perMatrix(figures.sharedLoads),
  };
}

const mb = (bytes: number): string => (bytes / 1e6).toFixed(1);

/** The document with `text` between two marks. */
function between(document: string, marks: readonly [string, string], text: string): string {
  const [begin, end] = marks.map((mark) => document.indexOf(mark));
  if (begin < 0 || end < begin) throw new TypeError(`docs/amd.md has no ${marks.join(" … ")}`);
  return `${document.slice(0, begin + marks[0].length)}\n\n${text}\n\n${document.slice(end)}`;
}

const GEMM_HEADINGS = [
  "card",
  "type",
  "tokens",
  "registers",
  "waves",
  "matrix a KB",
  "vector",
  "LDS loads",
  "matrix + vector cycles",
  "cycles",
  "",
] as const;

export interface ShownGemms {
  readonly card: Card;
  readonly compared: readonly ComparedGemms[];
  takes(gemms: ComparedGemms): boolean;
}

/** The document with a new table of products of halves and of bytes. */
export function withGemms(document: string, shownGemms: readonly ShownGemms[]): string {
  const rows = shownGemms.flatMap(({ card, compared, takes }) =>
    compared.map((gemms) => gemmRow(card, gemms, takes(gemms))),
  );
  const ruler = GEMM_HEADINGS.map(() => "---");
  const lines = [GEMM_HEADINGS, ruler, ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  return between(document, GEMM_MARKS, lines.join("\n"));
}

function gemmRow(card: Card, { type, tokens, halves, bytes }: ComparedGemms, isTaken: boolean): readonly string[] {
  const both = (textOf: (cost: GemmCost) => string): string => `${textOf(halves)} → ${textOf(bytes)}`;
  const gain = Math.round((bytes.cycles / halves.cycles - 1) * 100);
  return [
    card.name,
    type,
    String(tokens),
    both(({ registers, stackBytes }) => `${registers}${stackBytes > 0 ? `, ${stackBytes} B of stack` : ""}`),
    both(({ occupancy }) => occupancy.toFixed(1)),
    both(({ matrixPerKb }) => matrixPerKb.toFixed(1)),
    both(({ vector }) => vector.toFixed(1)),
    both(({ sharedLoads }) => sharedLoads.toFixed(1)),
    both(({ matrixCycles, vectorCycles }) => `${matrixCycles.toFixed(0)} + ${vectorCycles.toFixed(0)}`),
    `${both(({ cycles }) => cycles.toFixed(0))} (${gain > 0 ? "+" : ""}${gain} %)`,
    isTaken ? "taken" : "",
  ];
}

/** The document with new tables. */
export function withTables(document: string, cards: readonly Card[], figures: ShownFigures): string {
  const before = readPacked(BEFORE) as ShownFigures;
  const tables = cards.map((card) => table(card, figures[card.architecture] ?? {}, before[card.architecture] ?? {}));
  return between(document, MARKS, [slotTable(cards, figures), ...tables].join("\n\n"));
}

/** The slots of what decodes one token, of all cards. */
function slotTable(cards: readonly Card[], figures: ShownFigures): string {
  const ofCard = ({ architecture }: Card): ShownFigures[string] => figures[architecture] ?? {};
  const labels = new Set(cards.flatMap((card) => Object.keys(ofCard(card))));
  const rows = [...labels]
    .filter((label) => !label.endsWith("tokens"))
    .map((label) => [label, ...cards.map((card) => ofCard(card)[label]?.slots ?? "")])
    .filter(([, ...cells]) => cells.some((cell) => cell.includes("%")));
  const headings = ["decoding: vector of all slots", ...cards.map(({ name }) => name)];
  const lines = [headings, headings.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  return lines.join("\n");
}

function table(card: Card, figures: ShownFigures[string], before: ShownFigures[string]): string {
  const budget = slotsPerByte(card).toFixed(3);
  const needed = mb(neededBytes(card));
  const heading = `### ${card.name} (${card.architecture})`;
  const properties = `${card.computeUnits} compute units, ${card.clockGhz} GHz, ${card.bandwidthGBs} GB/s: ${budget} issue slots for each byte, and ${needed} MB in flight at ${LATENCY_NS / 1000} µs.`;
  const rows = Object.entries(figures).map(([label, after]) => {
    const old = before[label];
    const cells = COLUMNS.map((column) => {
      const was = old?.[column];
      return was === undefined || was === after[column] ? after[column] : `${was} → ${after[column]}`;
    });
    return `| ${label} | ${cells.join(" | ")} |`;
  });
  const ruler = `| --- | ${COLUMNS.map(() => "---").join(" | ")} |`;
  return [heading, "", properties, "", `| kernel | ${COLUMNS.join(" | ")} |`, ruler, ...rows].join("\n");
}
