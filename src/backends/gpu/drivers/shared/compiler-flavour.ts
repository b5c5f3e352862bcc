// What differs between NVRTC and hiprtc, for the requesting process and for the compiling one.

import type { CompileOptions, DriverKind } from "./driver.js";
import type { CompilerCalls } from "./calls.js";
import type { Prototypes } from "./ffi.js";

/** A module with this define is compiled with few optimizations: for kernels that a compiler is suspected to break. */
export const CAREFUL_DEFINE = "CAREFUL";

/** The functions and command line of NVRTC or hiprtc. */
export interface CompilerFlavour {
  readonly kind: DriverKind;
  /** Human-readable name. */
  readonly name: string;
  readonly prototypes: Prototypes<CompilerCalls>;
  /** The compiler's command-line options. */
  options(options: CompileOptions): readonly string[];
}

/** One `-DNAME=value` per define, in the syntax that both compilers accept. */
export function defineOptions({ waveSize, defines }: CompileOptions): readonly string[] {
  return [`-DWAVE=${waveSize}`, ...Object.entries(defines).map(([name, value]) => `-D${name}=${value}`)];
}

/** Whether a module is compiled with few optimizations. */
export function isCareful({ defines }: Pick<CompileOptions, "defines">): boolean {
  return defines[CAREFUL_DEFINE] !== undefined;
}
