// The comparison as an SVG chart: one group of bars per figure, ours above the peer's, with the ratio. Colours follow
// the page's light or dark scheme; there is no background.

import { countOf } from "../../src/cli/format.js";
import { type Comparison, formatFigure, formatRatio, type Metric, METRICS } from "./comparison.js";

const WIDTH = 760;
const LABEL_WIDTH = 96;
const BAR_WIDTH = 440;
const BAR_HEIGHT = 11;
const ROW_HEIGHT = 34;
const HEADING_HEIGHT = 40;
const TOP = 64;
const FOOT = 28;

const titlesOf = ({ prompt, depth }: PictureWords): { readonly [Name in Metric]: string } => ({
  decode: "Writing (decode), tokens per second",
  "decode-at-depth": `Writing after ${countOf(depth, "token")}, tokens per second`,
  prefill: `Reading a prompt of ${countOf(prompt, "token")}, tokens per second`,
  "first-token": "Process start to first token, milliseconds (less is better)",
  memory: `Most memory while reading a prompt of ${countOf(prompt, "token")}, megabytes (less is better)`,
  bandwidth: "Share of this machine's read bandwidth while writing",
});

const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 17px; font-weight: 600 }
  .heading { font-weight: 600 }
  .note, .value { fill: #59636e; font-size: 12px }
  .ours { fill: #1f6feb }
  .peer { fill: #afb8c1 }
  .ratio { font-weight: 600; text-anchor: end }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .note, .value { fill: #9198a1 }
    .ours { fill: #58a6ff }
    .peer { fill: #6e7681 }
  }`;

export interface PictureWords {
  readonly title: string;
  readonly note: string;
  /** The length of the prompt, and the depth of the decoded tokens. */
  readonly prompt: number;
  readonly depth: number;
}

export function drawPicture(comparisons: readonly Comparison[], words: PictureWords): string {
  const { title, note } = words;
  const titles = titlesOf(words);
  const body: string[] = [];
  let y = TOP;
  for (const metric of METRICS) {
    const rows = comparisons.filter((row) => row.metric === metric);
    if (rows.length === 0) continue;
    body.push(text(0, y + HEADING_HEIGHT - 16, "heading", titles[metric]));
    y += HEADING_HEIGHT;
    const longest =
      metric === "bandwidth" ? 1 : Math.max(...rows.flatMap(({ ours, peer }) => [ours.median, peer?.median ?? 0]));
    for (const row of rows) {
      body.push(drawRow(row, y, BAR_WIDTH / longest));
      y += ROW_HEIGHT;
    }
  }
  const height = y + FOOT;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escape(title)}">`,
    `<style>${STYLE}\n</style>`,
    text(0, 22, "title", title),
    rectangle(0, 38, 11, 11, "ours"),
    text(17, 48, "note", "ROCmForge"),
    rectangle(100, 38, 11, 11, "peer"),
    text(117, 48, "note", "node-llama-cpp, the best of its setups"),
    ...body,
    text(0, height - 8, "note", note),
    "</svg>",
    "",
  ].join("\n");
}

function drawRow({ type, metric, ours, peer, ratio }: Comparison, y: number, scale: number): string {
  const bar = (offset: number, value: number, style: string): string => {
    const width = Math.max(1, value * scale);
    const top = y + offset;
    return (
      rectangle(LABEL_WIDTH, top, width, BAR_HEIGHT, style) +
      text(LABEL_WIDTH + width + 6, top + BAR_HEIGHT - 1, "value", formatFigure(metric, value))
    );
  };
  return [
    text(0, y + BAR_HEIGHT + 6, "type", type),
    bar(0, ours.median, "ours"),
    ...(peer === undefined ? [] : [bar(BAR_HEIGHT + 2, peer.median, "peer")]),
    ...(ratio === undefined ? [] : [text(WIDTH, y + BAR_HEIGHT + 6, "ratio", formatRatio(ratio))]),
  ].join("\n");
}

function rectangle(x: number, y: number, width: number, height: number, style: string): string {
  return `<rect class="${style}" x="${x}" y="${y}" width="${Number(width.toFixed(1))}" height="${height}" rx="2"/>`;
}

function text(x: number, y: number, style: string, content: string): string {
  return `<text class="${style}" x="${Number(x.toFixed(1))}" y="${y}">${escape(content)}</text>`;
}

function escape(content: string): string {
  return content.replace(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`);
}
