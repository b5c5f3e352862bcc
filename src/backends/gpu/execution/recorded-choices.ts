// Choices of kernel parameters between the record of a card and the choices that lowering asks: what is on disk is
// checked against the families' declarations, and what programs use is told with its gain.

import { layoutById } from "../../../quant/layout.js";
import type { TunedChoice } from "../../tuning.js";
import type { DeviceRecord } from "../kernels/device-record.js";
import { choiceName, type KernelChoices } from "../lowering/kernel-choices.js";
import { areParameters, type FamilyName, isFamilyName, type KernelParameters } from "../lowering/kernel-families.js";

const DETERMINISTIC = "deterministic ";

/** The name of a choice in the record: choices of deterministic mode differ, because some parameters are not free there. */
export function recordName(name: string, deterministic: boolean): string {
  return deterministic ? `${DETERMINISTIC}${name}` : name;
}

/** A choice of the record for one mode. */
interface KeptChoice {
  readonly family: FamilyName;
  readonly key: string;
  readonly parameters: KernelParameters;
  readonly usual: KernelParameters | undefined;
  readonly usualUs: number | undefined;
  readonly chosenUs: number | undefined;
}

/** The choices of a record for one mode; those that fit no kernel are left out. */
export function keptChoices(record: DeviceRecord, deterministic: boolean): readonly KeptChoice[] {
  return Object.entries(record.read().chosen).flatMap(([recorded, { parameters, usual, usualUs, chosenUs }]) => {
    if (recorded.startsWith(DETERMINISTIC) !== deterministic) return [];
    const name = deterministic ? recorded.slice(DETERMINISTIC.length) : recorded;
    const [family] = name.split(" ", 1);
    const key = name.slice(family.length + 1);
    if (!isFamilyName(family) || key === "" || !areParameters(family, parameters)) return [];
    return [{ family, key, parameters, usual, usualUs, chosenUs }];
  });
}

/** Lets lowering take the choices of earlier processes. */
export function restoreChoices(choices: KernelChoices, record: DeviceRecord, deterministic: boolean): void {
  for (const { family, key, parameters } of keptChoices(record, deterministic)) choices.choose(family, key, parameters);
}

/** The recorded choices that launches were cut by. */
export function usedChoices(
  choices: KernelChoices,
  record: DeviceRecord,
  deterministic: boolean,
): readonly TunedChoice[] {
  return keptChoices(record, deterministic)
    .filter(({ family, key }) => choices.used.has(choiceName(family, key)))
    .map(({ family, key, parameters, usual, usualUs = null, chosenUs = null }) =>
      describedChoice({
        family,
        key,
        before: usual ?? parameters,
        after: parameters,
        beforeUs: usualUs,
        afterUs: chosenUs,
      }),
    );
}

interface MadeChoice extends Omit<TunedChoice, "kernel" | "shape"> {
  readonly family: FamilyName;
  readonly key: string;
}

/** A choice for people: types by their names instead of their numbers. */
export function describedChoice({ family, key, ...rest }: MadeChoice): TunedChoice {
  const words = key.split(" ").map((word) => (/^\d+(?:,\d+)*$/.test(word) ? typeNames(word) : word));
  return { kernel: family, shape: words.join(" "), ...rest };
}

function typeNames(numbers: string): string {
  return numbers
    .split(",")
    .map((number) => layoutById(Number(number))?.name ?? number)
    .join(",");
}
