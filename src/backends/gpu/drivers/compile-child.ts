// The compiler process: loads the library named on its command line, compiles one request after another and exits with
// its parent. It may crash while compiling; the parent reports the crash as the result of the request.
// Started as `node compile-child.js hip|cuda LIBRARY`.

import type { CompileMessage, CompileQuestion } from "./shared/compile-message.js";
import { NVRTC } from "./cuda/compiler.js";
import { HIPRTC } from "./hip/compiler.js";
import { compileProgram } from "./shared/compile.js";
import type { CompilerCalls } from "./shared/calls.js";
import { bindLibrary, isUnavailableDriver } from "./shared/driver-library.js";
import { type BoundCalls, openLibrary } from "./shared/ffi.js";

const [, , kind = "", libraryName = ""] = process.argv;
const flavour = kind === "cuda" ? NVRTC : HIPRTC;

function openCompiler(): BoundCalls<CompilerCalls> | { readonly unusable: string } {
  const library = openLibrary([libraryName]);
  if ("missing" in library) return { unusable: library.reason };
  const bound = bindLibrary(flavour.name, library, flavour.prototypes);
  return isUnavailableDriver(bound) ? { unusable: bound.reason } : bound;
}

const compiler = openCompiler();

function tell(message: CompileMessage): void {
  process.send?.(message);
}

process.on("message", (question: CompileQuestion) => {
  tell({ begun: true });
  tell("unusable" in compiler ? compiler : compileProgram(compiler, question));
});
process.on("disconnect", () => process.exit(0));
