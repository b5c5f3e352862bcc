// `rocmforge devices`: the GPUs with driver and compiler, the one that would be used, and reason and remedy for each
// that cannot be used. The status is 0 even if there is no GPU: the question was answered.

import { type DeviceReport, detectDevices } from "../../backends/registry.js";
import { defineCommand } from "../command.js";
import { formatBytes, formatTable, printable } from "../format.js";
import { GENERAL_OPTIONS } from "../model-options.js";
import type { OptionTable } from "../option-table.js";
import { inCommandLineWords } from "../option-words.js";

const OPTIONS = {
  json: { kind: "flag", description: "print one JSON object" },
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The command `devices`. */
export const devices = defineCommand({
  name: "devices",
  summary: "lists the GPUs, and why any of them cannot be used",
  about: ["--device takes a device's number, or a part of its name that is unique."],
  positionals: [],
  options: OPTIONS,
  examples: [
    { what: "all GPUs", line: "rocmforge devices" },
    { what: "the same as JSON", line: "rocmforge devices --json" },
  ],
  async run(values, _positionals, { output }) {
    const reports = (await detectDevices()).map(inOurWords);
    if (values.json) await output.writeJson({ drivers: reports });
    else await output.write(`${reports.map(describe).join("\n\n")}\n`);
    return 0;
  },
});

function inOurWords(report: DeviceReport): DeviceReport {
  const { unavailable } = report;
  return unavailable === undefined
    ? report
    : { ...report, unavailable: { ...unavailable, remedy: inCommandLineWords(unavailable.remedy) } };
}

function describe({ backend, driver, compiler, devices: found, choice, unavailable }: DeviceReport): string {
  const properties = [
    ...(driver === undefined ? [] : [["driver", `${driver.version} (${driver.library})`]]),
    ...(compiler === undefined ? [] : [["compiler", compiler]]),
    ...(unavailable === undefined
      ? []
      : [
          ["because", unavailable.reason],
          ["what to do", unavailable.remedy],
        ]),
    ...found.map((device) => [`device ${device.index}`, describeDevice(device)]),
    ...(choice === undefined || unavailable !== undefined ? [] : [["takes", `${choice.index}: ${choice.because}`]]),
  ];
  const state = unavailable === undefined ? "ready" : "not available";
  return `${backend}: ${state}\n${formatTable(properties.map((row) => row.map((cell) => printable(cell))))}`;
}

function describeDevice({
  name,
  architecture,
  totalBytes,
  multiprocessors,
  waveSize,
  integrated,
}: DeviceReport["devices"][number]): string {
  const kind = integrated ? ", shares the host's memory" : "";
  return `${name}, ${architecture}, ${formatBytes(totalBytes)}, ${multiprocessors} multiprocessors, waves of ${waveSize}${kind}`;
}
