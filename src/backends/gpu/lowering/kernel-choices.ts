// The parameters that were chosen for the kernels of one device, by family and shape, and the modules that computed wrong
// results there. Lowering asks here before it takes a formula's value. Pure data: who fills it, the tuner, the checker or a
// file, is above.

import { type ModuleRequest, moduleName } from "../kernels/kernel-store.js";
import { CAREFUL_DEFINE } from "../drivers/shared/compiler-flavour.js";
import { type FamilyName, familyOf, type KernelParameters } from "./kernel-families.js";
import type { LaunchSpec } from "./launch.js";

/** Which choice decides a kernel variant: what a tuner needs to try others. */
export interface TunedVariant<Parameters extends KernelParameters = KernelParameters> {
  readonly family: FamilyName;
  /** Everything about the launch that the best choice may depend on, and nothing that differs from layer to layer. */
  readonly key: string;
  /** The parameters in use. */
  readonly parameters: Parameters;
  /** Whether the launch can be cut so. */
  isValid(parameters: Parameters): boolean;
}

/** Wrong modules of one file after which no other parameters are tried: the formula's are compiled with few optimizations. */
const MAX_WRONG_VARIANTS = 2;

interface ChoiceOptions {
  /** Bits must not depend on choices: parameters that reorder sums keep the formula's values. */
  readonly deterministic: boolean;
  /** Families begin with poor parameters instead of the formulas': for testing the tuner. */
  readonly poor?: boolean;
}

interface ChoiceRequest<Parameters extends KernelParameters> {
  readonly family: FamilyName;
  readonly key: string;
  /** The formula's parameters. */
  readonly usual: Parameters;
  /** Parameters that another choice has decided already. */
  readonly fixed?: Partial<Parameters>;
  /** Whether the launch can be cut so; the formula's parameters need not be asked about. */
  isValid(parameters: Parameters): boolean;
  /** The module of a launch that is cut so. */
  moduleOf(parameters: Parameters): ModuleRequest;
}

/** Chosen parameters and wrong modules of a device. */
export class KernelChoices {
  readonly #options: ChoiceOptions;
  readonly #chosen = new Map<string, KernelParameters>();
  readonly #wrong = new Set<string>();
  /** Wrong modules of each file. */
  readonly #wrongOfFile = new Map<string, number>();
  #version = 0;
  readonly #used = new Set<string>();

  constructor(options: ChoiceOptions) {
    this.#options = options;
  }

  /** The same choices with others in place of some: for trying candidates. */
  with(trial: ReadonlyMap<string, KernelParameters>): KernelChoices {
    const copy = new KernelChoices(this.#options);
    for (const [name, parameters] of [...this.#chosen, ...trial]) copy.#chosen.set(name, parameters);
    for (const name of this.#wrong) copy.avoidNamed(name);
    return copy;
  }

  choose(family: FamilyName, key: string, parameters: KernelParameters): void {
    this.#chosen.set(choiceName(family, key), parameters);
  }

  /** Changes when a module turns out to be wrong: launches that were made before are not to be used any more. */
  get version(): number {
    return this.#version;
  }

  /** All choices, by `choiceName`. */
  get chosen(): ReadonlyMap<string, KernelParameters> {
    return this.#chosen;
  }

  /** Names of the choices that launches were cut by. */
  get used(): ReadonlySet<string> {
    return this.#used;
  }

  /**
   * The parameters for a launch: the chosen ones if there are any, else the formula's, else the first that are valid; the
   * formula's again if none is.
   */
  variant<Parameters extends KernelParameters>(request: ChoiceRequest<Parameters>): TunedVariant<Parameters> {
    const { family, key, fixed = {} } = request;
    const usual = { ...request.usual, ...fixed };
    const isValid = (parameters: Parameters): boolean =>
      Object.entries(fixed).every(([name, value]) => parameters[name] === value) &&
      request.isValid(parameters) &&
      (this.#wrong.size === 0 || !this.isWrong(request.moduleOf(parameters)));
    const choice = this.#chosen.get(choiceName(family, key));
    const wanted = choice ?? (this.#options.poor === true ? familyOf(family).poor : {});
    const chosen = { ...this.#completed(family, usual, wanted), ...fixed };
    const isUsed = isValid(chosen);
    if (isUsed && choice !== undefined) this.#used.add(choiceName(family, key));
    return { family, key, parameters: isUsed ? chosen : this.#usable({ ...request, usual }, isValid), isValid };
  }

  /** Everything that differs from these parameters in one that may be changed. */
  neighbours<Parameters extends KernelParameters>(family: FamilyName, from: Parameters): readonly Parameters[] {
    const { parameters } = familyOf(family);
    return this.tunable(family).flatMap((name) =>
      parameters[name].filter((value) => value !== from[name]).map((value) => ({ ...from, [name]: value })),
    );
  }

  /** The formula's parameters; if their module is wrong, the first that are valid, if there are any. */
  #usable<Parameters extends KernelParameters>(
    { family, usual, moduleOf }: ChoiceRequest<Parameters>,
    isValid: (parameters: Parameters) => boolean,
  ): Parameters {
    const module = moduleOf(usual);
    if (!this.isWrong(module) || this.isGivenUp(module.file)) return usual;
    return this.neighbours(family, usual).find(isValid) ?? usual;
  }

  #completed<Parameters extends KernelParameters>(
    family: FamilyName,
    usual: Parameters,
    wanted: KernelParameters,
  ): Parameters {
    const changes = this.tunable(family).filter((name) => Object.hasOwn(wanted, name));
    return { ...usual, ...Object.fromEntries(changes.map((name) => [name, wanted[name]] as const)) };
  }

  /** Names of parameters that a tuner may change. */
  tunable(family: FamilyName): readonly string[] {
    const { parameters, reorders } = familyOf(family);
    return Object.keys(parameters).filter((name) => !this.#options.deterministic || !reorders.includes(name));
  }

  /** No launch uses this module any more. */
  avoid(module: ModuleRequest): void {
    this.avoidNamed(moduleName(module));
  }

  /** The same for a module's name, as records have it. */
  avoidNamed(name: string): void {
    if (this.#wrong.has(name)) return;
    this.#wrong.add(name);
    const [file] = name.split(" ", 1);
    this.#wrongOfFile.set(file, (this.#wrongOfFile.get(file) ?? 0) + 1);
    this.#version++;
  }

  isWrong(module: ModuleRequest): boolean {
    return this.#wrong.size > 0 && this.#wrong.has(moduleName(module));
  }

  /** Whether too many modules of a file are wrong to go on with it: another kernel replaces it if there is one. */
  isGivenUp(file: string): boolean {
    return (this.#wrongOfFile.get(file) ?? 0) >= MAX_WRONG_VARIANTS;
  }

  /** The launch, with kernels that are compiled with few optimizations in place of wrong ones. */
  careful(launch: LaunchSpec): LaunchSpec {
    const { file, variants } = launch;
    if (!variants.some(({ defines }) => this.isWrong({ file, defines }))) return launch;
    return {
      ...launch,
      variants: variants.map((variant) =>
        this.isWrong({ file, defines: variant.defines })
          ? { ...variant, defines: { ...variant.defines, [CAREFUL_DEFINE]: 1 } }
          : variant,
      ),
    };
  }
}

/** The name of a choice in maps and files. */
export function choiceName(family: FamilyName, key: string): string {
  return `${family} ${key}`;
}
