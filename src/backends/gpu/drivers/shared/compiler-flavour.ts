// What differs between NVRTC and hiprtc, as seen by the process that asks and by the one that compiles.

import type { CompileOptions, DriverKind } from "./driver.js";
import type { CompilerCalls } from "./calls.js";
import type { Prototypes } from "./ffi.js";

export interface CompilerFlavour {
  readonly kind: DriverKind;
  /** Human-readable name. */
  readonly name: string;
  readonly prototypes: Prototypes<CompilerCalls>;
  /** The command line. */
  options(options: CompileOptions): readonly string[];
}

/** `-DNAME=value` for each; both compilers read it so. */
export function defineOptions({ waveSize, defines }: CompileOptions): readonly string[] {
  return [`-DWAVE=${waveSize}`, ...Object.entries(defines).map(([name, value]) => `-D${name}=${value}`)];
}
