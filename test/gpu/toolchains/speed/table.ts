// The figures of docs/amd.md: one table for each card, between two marks, with what they were before in figures-before.json
// where that differs.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Card, LATENCY_NS, neededBytes, slotsPerByte } from "./cards.js";
import type { MeasuredKernel } from "./measure.js";

export const DOCUMENT = fileURLToPath(new URL("../../../../docs/amd.md", import.meta.url));
const BEFORE = fileURLToPath(new URL("figures-before.json", import.meta.url));
const MARKS = ["<!-- figures -->", "<!-- end of figures -->"] as const;

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

/** The document with new tables. */
export function withTables(document: string, cards: readonly Card[], figures: ShownFigures): string {
  const [begin, end] = MARKS.map((mark) => document.indexOf(mark));
  if (begin < 0 || end < begin) throw new TypeError(`docs/amd.md has no ${MARKS.join(" … ")}`);
  const before = JSON.parse(readFileSync(BEFORE, "utf8")) as ShownFigures;
  const tables = cards.map((card) => table(card, figures[card.architecture] ?? {}, before[card.architecture] ?? {}));
  return `${document.slice(0, begin + MARKS[0].length)}\n\n${tables.join("\n\n")}\n\n${document.slice(end)}`;
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
