// The report of `doctor` as Markdown that also reads well on a terminal: columns of tables are aligned. Text from
// drivers, files and the environment is made printable and cannot break a table or begin a link.

import type { BackendReport, DeviceReport } from "../../backends/registry.js";
import { countOf, formatBytes, printable, wordsOf } from "../format.js";
import { inCommandLineWords } from "../option-words.js";
import type { Health } from "./health.js";
import { FALLBACK_BACKEND, type KnownProblem } from "./known-problems.js";

const MARKS = { error: "**error**", warning: "**warning**", note: "note" } as const;
/** Shown in the place of a value that may be a secret. */
const HIDDEN_VALUE = "(set; not shown)";

/** The whole report. */
export function describeHealth(health: Health): string {
  return [
    "# rocmforge doctor",
    "",
    ...buildLines(health),
    ...repairLines(health),
    ...problemLines(health.problems),
    "## Machine",
    "",
    ...table(["what", "found"], machineRows(health)),
    "",
    "## Backends",
    "",
    choiceText(health),
    "",
    ...health.backends.flatMap(backendLines),
    ...deviceLines(health),
    "## Caches",
    "",
    ...table(["cache", "folder", "contents", "free on disk"], cacheRows(health)),
    "",
    ...settingLines(health),
  ].join("\n");
}

function buildLines({ build }: Health): readonly string[] {
  if (build === undefined) return [];
  return [build.built ? "The native addon was built." : inline(build.reason ?? ""), ""];
}

function repairLines({ repairs }: Health): readonly string[] {
  if (repairs === undefined) return [];
  const lines = repairs.map(({ what, failure }) =>
    failure === undefined ? `- ${inline(what)}` : `- **failed**: ${inline(what)}: ${inline(failure)}`,
  );
  return ["## Repairs", "", ...(lines.length === 0 ? ["There was nothing to repair."] : lines), ""];
}

function problemLines(problems: readonly KnownProblem[]): readonly string[] {
  const lines = problems.flatMap(({ severity, what, remedy }) => [
    `- ${MARKS[severity]}: ${inline(what)}`,
    `  - what to do: ${inline(remedy)}`,
  ]);
  return ["## Known problems", "", ...(lines.length === 0 ? ["None."] : lines), ""];
}

function machineRows({ rocmforge, node, platform, machine, memory, mapping }: Health): readonly (readonly string[])[] {
  const { system, libc, container, processor, cores, instructions, cards } = machine;
  const cardTexts = cards.map(({ vendor, id, driver }) => `${vendor} ${id} (${driver ?? "no driver"})`);
  return [
    ["rocmforge", rocmforge],
    ["node", `${node}, ${platform}`],
    ["system", [system, libc, container].filter((text) => text !== undefined).join(", ")],
    ["processor", `${processor}, ${countOf(cores, "thread")}`],
    ["instructions", instructions.join(", ") || "unknown"],
    ["memory", `${formatBytes(memory.availableBytes)} free of ${formatBytes(memory.totalBytes)}`],
    ["mapping", mapping.available ? "files are mapped, weights are not copied" : `no: ${mapping.reason ?? ""}`],
    ["graphics cards", cardTexts.join(", ") || "none on the PCI bus"],
  ];
}

function choiceText({ auto, autoStopsAt, problem }: Health): string {
  if (autoStopsAt !== undefined)
    return `\`--backend auto\` chooses ${autoStopsAt} and fails until that is fixed; other backends can be chosen by name.`;
  if (problem !== undefined || auto === undefined) return "No backend can be used until this is fixed.";
  const note = auto === FALLBACK_BACKEND ? ": exact but slow, because no other backend is available" : "";
  return `\`--backend auto\` chooses ${auto}${note}.`;
}

function backendLines({ name, summary, unavailable, diagnostics = {} }: BackendReport): readonly string[] {
  const rows =
    unavailable === undefined
      ? Object.entries(diagnostics).map(([property, value]) => [wordsOf(property), propertyText(value)])
      : [
          ["because", unavailable.reason],
          ["what to do", inCommandLineWords(unavailable.remedy)],
        ];
  return [
    `### ${name}: ${unavailable === undefined ? "ready" : "not available"}`,
    "",
    `${inline(summary)}`,
    "",
    ...rows.map(([property, text]) => `- ${property}: ${inline(text)}`),
    ...(rows.length === 0 ? [] : [""]),
  ];
}

function deviceLines({ devices }: Health): readonly string[] {
  const rows = devices.flatMap((report) => report.devices.map((device) => deviceRow(report, device)));
  if (rows.length === 0) return [];
  return [
    "## Devices",
    "",
    ...table(["device", "driver", "architecture", "memory", "units", "checked kernels"], rows),
    "",
  ];
}

function deviceRow({ backend, driver }: DeviceReport, device: DeviceReport["devices"][number]): readonly string[] {
  const { index, name, architecture, totalBytes, multiprocessors, waveSize, integrated, checkedKernels } = device;
  return [
    `${backend} ${index}: ${name}`,
    driver?.version ?? "",
    architecture,
    `${formatBytes(totalBytes)}${integrated ? ", shared with the host" : ""}`,
    `${multiprocessors}, waves of ${waveSize}`,
    checkedKernels === undefined ? "none yet" : `${checkedKernels.passed} right, ${checkedKernels.failed.length} wrong`,
  ];
}

function cacheRows({ caches: { kernels, hub, url } }: Health): readonly (readonly string[])[] {
  const disk = ({ freeBytes, writable }: typeof kernels.disk): string =>
    `${freeBytes === undefined ? "unknown" : formatBytes(freeBytes)}${writable ? "" : ", not writable"}`;
  const models = (name: string, cache: typeof hub): readonly (readonly string[])[] =>
    cache === undefined
      ? []
      : [[name, cache.folder, `${countOf(cache.models, "model")}, ${formatBytes(cache.sizeBytes)}`, disk(cache.disk)]];
  return [
    [
      "kernels",
      kernels.folder,
      `${countOf(kernels.kernels, "kernel")}, ${formatBytes(kernels.sizeBytes)}`,
      disk(kernels.disk),
    ],
    ...models("models of the hub", hub),
    ...models("models from other addresses", url),
  ];
}

function settingLines({ settings }: Health): readonly string[] {
  if (settings.length === 0) return [];
  const rows = settings.map(({ name, value }) => [name, value ?? HIDDEN_VALUE]);
  return ["## Environment variables", "", ...table(["variable", "value"], rows), ""];
}

/** A table with aligned columns. */
function table(titles: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const cells = [titles, ...rows].map((row) => row.map(inline));
  const widths = titles.map((_, column) => Math.max(3, ...cells.map((row) => row[column].length)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column])).join(" | ")} |`;
  return [line(cells[0]), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...cells.slice(1).map(line)];
}

/** Text of one line that is neither a cell's end nor HTML. */
function inline(text: string): string {
  return printable(text)
    .replaceAll("|", String.raw`\|`)
    .replaceAll("<", "&lt;");
}

function propertyText(value: string | number | boolean | readonly string[]): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "object" ? value.join(", ") : String(value);
}
