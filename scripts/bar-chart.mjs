// A bar chart as SVG: groups of horizontal bars, one for each series, with their spread as a thin line and their figures
// beside them. Colours follow the page's light or dark scheme, there is no background, and the chart names its hardware and
// its command, so that it can stand alone.

const WIDTH = 720;
const LABEL_WIDTH = 168;
const FIGURE_WIDTH = 128;
const BAR_HEIGHT = 12;
const BAR_GAP = 3;
const GROUP_GAP = 14;
const LINE_HEIGHT = 17;
const TOP = 58;
const NOTE_CHARACTERS = 108;

const STYLE = `text{font:13px system-ui,sans-serif;fill:#1f2328}
.t{font-size:16px;font-weight:600}.n,.v{fill:#59636e;font-size:12px}.c{font:12px ui-monospace,monospace;fill:#59636e}
.a{fill:#1f6feb}.b{fill:#afb8c1}.s{stroke:#1f2328;stroke-width:1.5}.x{stroke:#d1d9e0}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n,.v,.c{fill:#9198a1}.a{fill:#58a6ff}.b{fill:#6e7681}.s{stroke:#e6edf3}.x{stroke:#3d444d}}`;
const SERIES_STYLES = ["a", "b"];

/**
 * One bar: its length, the text beside it, and the smallest and largest measured value if they are known.
 * @typedef {{ readonly value: number, readonly text: string, readonly from?: number, readonly to?: number }} Bar
 */

/**
 * @typedef {object} Chart
 * @property {string} title what is shown, with its unit
 * @property {readonly string[]} series names of the bars of a group, at most two
 * @property {readonly { readonly label: string, readonly bars: readonly (Bar | undefined)[] }[]} groups
 * @property {string} hardware what it was measured on, and how
 * @property {string} command the command that measures it
 */

/**
 * Draws a chart.
 * @param {Chart} chart
 * @returns {string} the SVG file
 */
export function drawBarChart({ title, series, groups, hardware, command }) {
  const bars = groups.flatMap((group) => group.bars.filter((bar) => bar !== undefined));
  const scale =
    (WIDTH - LABEL_WIDTH - FIGURE_WIDTH) / Math.max(...bars.map(({ value, to = value }) => Math.max(value, to)));
  const body = [];
  let y = TOP;
  for (const { label, bars: ofGroup } of groups) {
    const height = ofGroup.length * (BAR_HEIGHT + BAR_GAP) - BAR_GAP;
    body.push(text(LABEL_WIDTH - 10, y + height / 2 + 4, "", label, "end"));
    for (const [index, bar] of ofGroup.entries()) {
      if (bar !== undefined) body.push(drawBar(bar, y, scale, SERIES_STYLES[index]));
      y += BAR_HEIGHT + BAR_GAP;
    }
    y += GROUP_GAP - BAR_GAP;
  }
  body.push(`<path class="x" d="M${LABEL_WIDTH} ${TOP - 6}V${y - GROUP_GAP / 2}"/>`);
  const notes = [...wrapped(hardware).map((line) => ["n", line]), ...wrapped(command).map((line) => ["c", line])];
  for (const [style, line] of notes) {
    y += LINE_HEIGHT;
    body.push(text(0, y, style, line));
  }
  const height = y + 8;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escaped(title)}">`,
    `<style>${STYLE}</style>`,
    text(0, 18, "t", title),
    ...legend(series),
    ...body,
    "</svg>\n",
  ].join("\n");
}

function legend(series) {
  let x = 0;
  return series.map((name, index) => {
    const entry = `<rect class="${SERIES_STYLES[index]}" x="${x}" y="30" width="11" height="11" rx="2"/>${text(x + 17, 40, "n", name)}`;
    x += 40 + name.length * 7;
    return entry;
  });
}

function drawBar({ value, text: figure, from, to }, y, scale, style) {
  const width = Math.max(1, value * scale);
  const parts = [
    `<rect class="${style}" x="${LABEL_WIDTH}" y="${y}" width="${rounded(width)}" height="${BAR_HEIGHT}" rx="2"/>`,
  ];
  let end = width;
  if (from !== undefined && to !== undefined) {
    const middle = y + BAR_HEIGHT / 2;
    parts.push(
      `<path class="s" d="M${rounded(LABEL_WIDTH + from * scale)} ${middle}H${rounded(LABEL_WIDTH + to * scale)}"/>`,
    );
    end = Math.max(end, to * scale);
  }
  parts.push(text(rounded(LABEL_WIDTH + end + 6), y + BAR_HEIGHT - 2, "v", figure));
  return parts.join("");
}

/** Lines of words, none longer than the chart is wide. */
function wrapped(words) {
  const lines = [""];
  for (const word of words.split(" ")) {
    if (lines.at(-1).length + word.length >= NOTE_CHARACTERS) lines.push("");
    lines[lines.length - 1] += lines.at(-1) === "" ? word : ` ${word}`;
  }
  return lines;
}

function text(x, y, style, content, anchor) {
  const attributes = `${style === "" ? "" : ` class="${style}"`}${anchor === undefined ? "" : ` text-anchor="${anchor}"`}`;
  return `<text${attributes} x="${x}" y="${y}">${escaped(content)}</text>`;
}

const rounded = (value) => Number(value.toFixed(1));

const escaped = (content) => content.replaceAll(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`);
