// `rocmforge doctor`: what this machine and this installation can do, what is missing and how to get it; builds the
// addon. Status 0 if `auto` chooses a native backend, 1 if only the reference backend is left or a build has failed.

import { fileURLToPath } from "node:url";
import { hostMemory } from "../../backends/host-memory.js";
import { type BackendReport, detectBackends } from "../../backends/registry.js";
import { RocmForgeError } from "../../errors.js";
import { ByteSource } from "../../gguf/byte-source.js";
import { MappedFile } from "../../gguf/mapping.js";
import { buildAddon } from "../addon-build.js";
import { defineCommand } from "../command.js";
import { formatBytes, formatTable, printable, wordsOf } from "../format.js";
import { GENERAL_OPTIONS } from "../model-options.js";
import type { OptionTable } from "../option-table.js";
import { inCommandLineWords, messageFor } from "../option-words.js";

const NAME = "doctor";
/** The backend that always works: exact and slow. */
const FALLBACK_BACKEND = "reference";

const OPTIONS = {
  build: { kind: "flag", description: "rebuild the native addon first" },
  json: { kind: "flag", description: "print one JSON object" },
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

interface Health {
  readonly node: string;
  readonly platform: string;
  readonly memory: { readonly totalBytes: number; readonly availableBytes: number };
  readonly mapping: { readonly available: boolean; readonly reason?: string };
  readonly backends: readonly BackendReport[];
  /** Why the backends could not be probed: a setting that is invalid here. */
  readonly problem?: string;
  /** The backend that `auto` chooses. */
  readonly auto?: string;
  /** If `auto` chooses none, the backend that failed. */
  readonly autoStopsAt?: string;
  /** The result of `--build`, if it was given. */
  readonly build?: { readonly built: boolean; readonly reason?: string };
}

/** The command `doctor`. */
export const doctor = defineCommand({
  name: NAME,
  summary: "reports what can run on this machine and what is missing, and builds the native addon",
  about: [
    "Status 0 if --backend auto chooses a native backend, 1 if only the reference backend is left.",
    "--build needs Python 3, make and a C++17 compiler (on Debian: apt-get install python3 make g++).",
  ],
  positionals: [],
  options: OPTIONS,
  examples: [
    { what: "what runs on this machine, and why the rest does not", line: "rocmforge doctor" },
    {
      what: "after an install with --ignore-scripts, or after installing a compiler",
      line: "rocmforge doctor --build",
    },
  ],
  async run(values, _positionals, { output }) {
    // Before anything is loaded: a process keeps the addon that it loaded first.
    const failure = values.build ? await buildAddon() : undefined;
    const health = {
      ...(await examine()),
      ...(values.build ? { build: { built: failure === undefined, ...failure } } : {}),
    };
    if (values.json) await output.writeJson(health);
    else await output.write(describe(health));
    return failure === undefined && health.auto !== undefined && health.auto !== FALLBACK_BACKEND ? 0 : 1;
  },
});

async function examine(): Promise<Health> {
  const machine = {
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
    memory: hostMemory(),
    mapping: await examineMapping(),
  };
  try {
    const backends = await detectBackends();
    const best = backends.find(({ unavailable, stopsAuto }) => unavailable === undefined || stopsAuto === true);
    if (best === undefined) return { ...machine, backends };
    return { ...machine, backends, ...(best.stopsAuto === true ? { autoStopsAt: best.name } : { auto: best.name }) };
  } catch (error) {
    if (!(error instanceof RocmForgeError)) throw error;
    return { ...machine, backends: [], problem: messageFor(error, NAME) };
  }
}

/** Maps a file that always exists, to test whether mapping works. */
async function examineMapping(): Promise<Health["mapping"]> {
  using source = ByteSource.open(fileURLToPath(new URL("../../../package.json", import.meta.url)));
  const mapped = await MappedFile.map(source);
  if (!(mapped instanceof MappedFile)) return { available: false, reason: mapped.reason };
  mapped[Symbol.dispose]();
  return { available: true };
}

function describe({ node, platform, memory, mapping, backends, problem, build, ...choice }: Health): string {
  const machine = [
    ["node", node],
    ["platform", platform],
    ["memory", `${formatBytes(memory.availableBytes)} free of ${formatBytes(memory.totalBytes)}`],
    [
      "mapping",
      mapping.available ? "files are mapped, weights are not copied" : `no: ${printable(mapping.reason ?? "")}`,
    ],
  ];
  return [
    ...(build === undefined ? [] : [build.built ? "the native addon was built" : printable(build.reason ?? ""), ""]),
    "machine",
    formatTable(machine),
    ...(problem === undefined ? [] : ["", printable(problem)]),
    ...backends.flatMap(describeBackend),
    "",
    describeChoice(choice),
    "",
  ].join("\n");
}

function describeChoice({ auto, autoStopsAt }: Pick<Health, "auto" | "autoStopsAt">): string {
  if (autoStopsAt !== undefined)
    return `--backend auto chooses ${autoStopsAt} and fails until that is fixed; other backends can be chosen by name`;
  if (auto === undefined) return "no backend can be used until this is fixed";
  return `--backend auto chooses ${auto}${auto === FALLBACK_BACKEND ? ": exact but slow, because no other backend is available" : ""}`;
}

function describeBackend({ name, summary, unavailable, diagnostics = {} }: BackendReport): string[] {
  const rows =
    unavailable === undefined
      ? Object.entries(diagnostics).map(([property, value]) => [wordsOf(property), printable(propertyText(value))])
      : [
          ["because", printable(unavailable.reason)],
          ["what to do", printable(inCommandLineWords(unavailable.remedy))],
        ];
  return [
    "",
    `${name}: ${unavailable === undefined ? "ready" : "not available"} (${summary})`,
    ...(rows.length === 0 ? [] : [formatTable(rows)]),
  ];
}

function propertyText(value: string | number | boolean | readonly string[]): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "object" ? value.join(", ") : String(value);
}
