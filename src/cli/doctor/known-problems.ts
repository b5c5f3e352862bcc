// Problems that `doctor` recognises in its findings, each with what to do, and those that `--fix` repairs.

import { countOf, formatBytes } from "../format.js";
import { inCommandLineWords } from "../option-words.js";
import type { Findings } from "./health.js";

/** What `--fix` can repair. */
export type RepairKind = "addon" | "kernel cache" | "downloads";

/** A problem and what to do about it. */
export interface KnownProblem {
  /** An error keeps models from running at full speed or at all, a warning may, a note is worth knowing. */
  readonly severity: "error" | "warning" | "note";
  readonly what: string;
  readonly remedy: string;
  /** Present if `doctor --fix` can repair it. */
  readonly repair?: RepairKind;
}

/** The backend that always works: exact and slow. */
export const FALLBACK_BACKEND = "reference";
const FIX = "run `rocmforge doctor --fix`";
/** With less, hardly a model can be downloaded. */
const LITTLE_DISK_BYTES = 5e9;
/** Firmware sets no more aside for an integrated card by default; a card of its own has no less. */
const LARGEST_CARVE_OUT_BYTES = 4 * 2 ** 30;
/** Share of VRAM in use from which on the driver moves things out of it. */
const FULL_SHARE = 0.97;
/** Pinned memory lies in GTT too, but not so much. */
const MUCH_GTT_BYTES = 2 ** 30;
/** The backends of the vendors' cards. */
const CARD_BACKENDS: Readonly<Record<string, string>> = { AMD: "hip", NVIDIA: "cuda" };

/** The problems in the findings, the gravest first. */
export function knownProblems(findings: Findings): readonly KnownProblem[] {
  const problems = [
    backendProblems,
    addonProblems,
    cardProblems,
    kernelProblems,
    memoryProblems,
    packageProblems,
    cacheProblems,
    settingProblems,
  ];
  const found = problems.flatMap((look) => look(findings));
  const order = ["error", "warning", "note"];
  return found.toSorted((one, other) => order.indexOf(one.severity) - order.indexOf(other.severity));
}

function backendProblems({ problem, auto, autoStopsAt, backends }: Findings): readonly KnownProblem[] {
  if (problem !== undefined) return [{ severity: "error", what: problem, remedy: "correct the setting" }];
  if (autoStopsAt !== undefined) {
    const { reason = "", remedy = "" } = backends.find(({ name }) => name === autoStopsAt)?.unavailable ?? {};
    return [
      {
        severity: "error",
        what: `--backend auto chooses ${autoStopsAt} and fails: ${reason}`,
        remedy: `${inCommandLineWords(remedy)}; other backends can be chosen by name`,
      },
    ];
  }
  if (auto !== undefined && auto !== FALLBACK_BACKEND) return [];
  return [
    {
      severity: "error",
      what: "only the reference backend can run, which is exact but slow",
      remedy: "make a GPU or the native addon usable, as described for each backend",
    },
  ];
}

function addonProblems({ backends }: Findings): readonly KnownProblem[] {
  const cpu = backends.find(({ name }) => name === "cpu");
  if (cpu?.unavailable === undefined || cpu.stopsAuto === true) return [];
  const { reason, remedy } = cpu.unavailable;
  return [{ severity: "warning", what: `the native addon: ${reason}`, remedy, repair: "addon" }];
}

function cardProblems({ machine, backends }: Findings): readonly KnownProblem[] {
  const vendors = new Set(machine.cards.map(({ vendor }) => vendor));
  return [...vendors].flatMap((vendor): readonly KnownProblem[] => {
    const unavailable = backends.find(({ name }) => name === CARD_BACKENDS[vendor])?.unavailable;
    if (unavailable === undefined) return [];
    const { reason, remedy } = unavailable;
    return [
      {
        severity: "warning",
        what: `there is a card by ${vendor}, and ${CARD_BACKENDS[vendor]} cannot run: ${reason}`,
        remedy: inCommandLineWords(remedy),
      },
    ];
  });
}

/** Kernels that computed wrong results when they were checked, on each card. */
function kernelProblems({ devices }: Findings): readonly KnownProblem[] {
  return devices.flatMap(({ backend, driver, devices: cards }) =>
    cards.flatMap(({ index, name, checkedKernels }) =>
      (checkedKernels?.failed ?? []).map((kernel): KnownProblem => ({
        severity: "warning",
        what: `the kernel ${kernel} computes wrong results on ${backend} ${index} (${name}, driver ${driver?.version ?? "unknown"})`,
        remedy:
          "another variant is used in its place, which may be slower; update the driver, and report this with the output of `rocmforge verify`",
      })),
    ),
  );
}

/** Host memory that cards use: an integrated one always, another one where its own is full. */
export function memoryProblems({ machine }: Pick<Findings, "machine">): readonly KnownProblem[] {
  return machine.cards.flatMap(({ vendor, id, memory }): readonly KnownProblem[] => {
    if (memory === undefined) return [];
    const { vramBytes, vramUsedBytes, gttBytes, gttUsedBytes } = memory;
    if (vramBytes < gttBytes && vramBytes <= LARGEST_CARVE_OUT_BYTES)
      return [
        {
          severity: "note",
          what: `${vendor} ${id} shares the host's memory: ${formatBytes(vramBytes)} are set aside by the firmware, and it may use ${formatBytes(gttBytes)} of the rest (GTT)`,
          remedy:
            "to allow more, set the kernel parameter ttm.pages_limit (pages of 4 KiB; amdgpu.gttsize, in MiB, before Linux 6.10)",
        },
      ];
    if (vramUsedBytes < vramBytes * FULL_SHARE || gttUsedBytes < MUCH_GTT_BYTES) return [];
    return [
      {
        severity: "warning",
        what: `${vendor} ${id}: VRAM is full (${formatBytes(vramUsedBytes)} of ${formatBytes(vramBytes)}), and ${formatBytes(gttUsedBytes)} lie in host memory (GTT), which is far slower`,
        remedy: "close what else uses the card, or use a shorter context, a smaller KV type or smaller weights",
      },
    ];
  });
}

function packageProblems({ missingFiles, mapping, platform }: Findings): readonly KnownProblem[] {
  const problems: KnownProblem[] = [];
  if (missingFiles.length > 0)
    problems.push({
      severity: "warning",
      what: `files of this package are missing: ${missingFiles.join(", ")}`,
      remedy: "reinstall the package; in a checkout run `npm run build`",
    });
  if (!mapping.available && /^(?:linux|win32)/.test(platform))
    problems.push({
      severity: "warning",
      what: `files cannot be mapped, so that weights are copied: ${mapping.reason ?? ""}`,
      remedy: "reinstall the package without --omit=optional, which leaves out a part of Koffi",
    });
  return problems;
}

function cacheProblems({ caches }: Findings): readonly KnownProblem[] {
  const { kernels, hub, url, stale, problem } = caches;
  const problems: KnownProblem[] = [];
  if (problem !== undefined)
    problems.push({
      severity: "warning",
      what: problem,
      remedy: "correct the variable; models by name cannot be used",
    });
  if (kernels.useless.length > 0)
    problems.push({
      severity: "warning",
      what: `the kernel cache has ${kindsText(kernels.useless)}`,
      remedy: `${FIX}; they are compiled again when they are needed`,
      repair: "kernel cache",
    });
  if (stale.length > 0)
    problems.push({
      severity: "note",
      what: `the model caches have ${staleText(stale)}`,
      remedy: `${FIX}; complete models stay`,
      repair: "downloads",
    });
  if (!kernels.disk.writable)
    problems.push({
      severity: "warning",
      what: `the kernel cache cannot be written (${kernels.folder}), so that every start compiles kernels again`,
      remedy: "make it writable, or name another folder with ROCMFORGE_KERNEL_CACHE",
    });
  for (const cache of [hub, url]) {
    if (cache === undefined) continue;
    if (!cache.disk.writable)
      problems.push({
        severity: "warning",
        what: `models cannot be downloaded: ${cache.folder} cannot be written`,
        remedy: "make it writable, or name another folder with HF_HUB_CACHE or ROCMFORGE_MODEL_CACHE",
      });
  }
  if ((hub?.disk.freeBytes ?? Infinity) < LITTLE_DISK_BYTES)
    problems.push({
      severity: "warning",
      what: `the disk of the model cache has ${formatBytes(hub?.disk.freeBytes ?? 0)} left`,
      remedy: "remove models with `rocmforge rm`, or name another folder with HF_HUB_CACHE",
    });
  return problems;
}

/** "2 damaged and 1 unused file, 3.1 MB". */
function kindsText(files: readonly { readonly why: string; readonly sizeBytes: number }[]): string {
  const kinds = [...new Set(files.map(({ why }) => why))];
  const counts = kinds.map((kind) => `${files.filter(({ why }) => why === kind).length} ${kind}`);
  return `${counts.join(" and ")} ${files.length === 1 ? "file" : "files"}, ${formatBytes(totalOf(files))}`;
}

function staleText(stale: Findings["caches"]["stale"]): string {
  const partials = stale.filter(({ kind }) => kind === "partial");
  const locks = stale.length - partials.length;
  return [
    ...(partials.length === 0
      ? []
      : [
          `${countOf(partials.length, "partial download")} that no process has written to for a week (${formatBytes(totalOf(partials))})`,
        ]),
    ...(locks === 0 ? [] : [`${countOf(locks, "lock")} of processes that have ended`]),
  ].join(" and ");
}

function totalOf(files: readonly { readonly sizeBytes: number }[]): number {
  return files.reduce((total, { sizeBytes }) => total + sizeBytes, 0);
}

function settingProblems({ settings, backends }: Findings): readonly KnownProblem[] {
  const problems: KnownProblem[] = [];
  const valueOf = (name: string): string | undefined => settings.find((setting) => setting.name === name)?.value;
  const isa = valueOf("ROCMFORGE_CPU_ISA");
  const sets = backends.find(({ name }) => name === "cpu")?.diagnostics?.["instructionSets"];
  if (isa !== undefined && Array.isArray(sets) && sets[0] !== isa)
    problems.push({
      severity: "note",
      what: `ROCMFORGE_CPU_ISA=${isa} forces a lower instruction set than ${String(sets[0])}`,
      remedy: "unset it for full speed",
    });
  for (const { name, value } of settings)
    if (/^ROCMFORGE_GPU_(?:GRAPHS|BLAS|PREWARM|SLABS)$/.test(name) && value === "off")
      problems.push({ severity: "note", what: `${name}=off makes GPUs slower`, remedy: "unset it for full speed" });
  const override = valueOf("HSA_OVERRIDE_GFX_VERSION");
  if (override !== undefined)
    problems.push({
      severity: "note",
      what: `HSA_OVERRIDE_GFX_VERSION=${override} makes AMD's driver report another architecture than the card has`,
      remedy: "unset it if kernels crash or give wrong results; this package compiles kernels for the card itself",
    });
  return problems;
}
