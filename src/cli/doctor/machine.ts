// The machine as `doctor` describes it: system, processor, graphics cards that the kernel knows, even without a driver.

import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { availableParallelism, cpus, release } from "node:os";
import { basename } from "node:path";

/** A card on the PCI bus. */
export interface PciCard {
  readonly vendor: string;
  /** Vendor and device as the PCI ids list has them: `1002:744c`. */
  readonly id: string;
  /** The kernel's driver; undefined if there is none. */
  readonly driver: string | undefined;
  /** As its kernel driver reports it. */
  readonly memory?: CardMemory;
}

/** Of an AMD card: its own memory, and host memory that it may use. */
export interface CardMemory {
  readonly vramBytes: number;
  readonly vramUsedBytes: number;
  readonly gttBytes: number;
  readonly gttUsedBytes: number;
}

/** System, processor and cards. */
export interface MachineReport {
  readonly system: string;
  readonly libc: string | undefined;
  /** Docker, Podman, WSL and the like; undefined on a plain machine. */
  readonly container: string | undefined;
  readonly processor: string;
  readonly cores: number;
  /** Instructions of the processor that kernels use. */
  readonly instructions: readonly string[];
  readonly cards: readonly PciCard[];
}

const INSTRUCTIONS = [
  "avx",
  "avx2",
  "fma",
  "f16c",
  "avx512f",
  "avx512bw",
  "avx512vl",
  "avx512_vnni",
  "avx_vnni",
  "asimd",
  "asimddp",
  "i8mm",
];
const VENDORS: Readonly<Record<string, string>> = { "0x1002": "AMD", "0x10de": "NVIDIA", "0x8086": "Intel" };
/** Display controllers, and processing accelerators. */
const CARD_CLASS = /^0x(?:03|12)/;
const PCI_FOLDER = "/sys/bus/pci/devices";

/** Describes this machine; what the system does not tell is left out. */
export function describeMachine(): MachineReport {
  const processors = cpus();
  return {
    system: `${systemName()}, kernel ${release()}`,
    libc: libcVersion(),
    container: containerName(),
    processor: processors[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    instructions: processorInstructions(),
    cards: pciCards(),
  };
}

function systemName(): string {
  const name = /^PRETTY_NAME="?(?<name>[^"\n]*)"?$/m.exec(textOf("/etc/os-release"))?.groups?.["name"];
  return name ?? process.platform;
}

function libcVersion(): string | undefined {
  if (process.platform !== "linux") return undefined;
  // Otherwise the report asks for the name of every peer of every connection.
  if (process.report !== undefined) Object.assign(process.report, { excludeNetwork: true });
  const { header } = (process.report?.getReport() ?? {}) as { readonly header?: Readonly<Record<string, unknown>> };
  const version = header?.["glibcVersionRuntime"];
  return typeof version === "string" ? `glibc ${version}` : "not glibc";
}

function containerName(): string | undefined {
  if (/microsoft/i.test(release())) return "WSL";
  if (existsSync("/.dockerenv")) return "Docker";
  if (existsSync("/run/.containerenv")) return "Podman";
  return process.env["KUBERNETES_SERVICE_HOST"] === undefined ? undefined : "Kubernetes";
}

function processorInstructions(): readonly string[] {
  const line = /^(?:flags|Features)\s*:(?<words>.*)$/m.exec(textOf("/proc/cpuinfo"))?.groups?.["words"] ?? "";
  const words = new Set(line.split(/\s+/));
  return INSTRUCTIONS.filter((name) => words.has(name));
}

/** Cards in a folder of PCI devices. */
export function pciCards(devices: string = PCI_FOLDER): readonly PciCard[] {
  return namesIn(devices).flatMap((name) => {
    const folder = `${devices}/${name}`;
    if (!CARD_CLASS.test(textOf(`${folder}/class`))) return [];
    const vendor = textOf(`${folder}/vendor`).trim();
    const id = `${vendor.slice(2)}:${textOf(`${folder}/device`).trim().slice(2)}`;
    const memory = memoryOf(folder);
    return [
      { vendor: VENDORS[vendor] ?? vendor, id, driver: driverOf(folder), ...(memory === undefined ? {} : { memory }) },
    ];
  });
}

/** The pools of AMD's kernel driver. */
function memoryOf(folder: string): CardMemory | undefined {
  const figures = ["vram_total", "vram_used", "gtt_total", "gtt_used"].map((name) =>
    textOf(`${folder}/mem_info_${name}`).trim(),
  );
  if (!figures.every((text) => /^\d+$/.test(text))) return undefined;
  const [vramBytes, vramUsedBytes, gttBytes, gttUsedBytes] = figures.map(Number);
  return { vramBytes, vramUsedBytes, gttBytes, gttUsedBytes };
}

function driverOf(folder: string): string | undefined {
  try {
    return basename(readlinkSync(`${folder}/driver`));
  } catch {
    return undefined;
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
