// One run of a run-time compiler: source in, code or error log out. It blocks, and may crash the process: see
// compile-child.

import type { CompileAnswer, CompileQuestion } from "./compile-message.js";
import type { CompilerCalls } from "./calls.js";
import { addressOf, type BoundCalls, Outputs } from "./ffi.js";

/** Characters of a compiler's log that are kept; templates can produce megabytes. */
const MAX_LOG_BYTES = 256 * 1024;

/** Compiles one source with the loaded library, blocking this thread. */
export function compileProgram(
  { calls, symbols }: BoundCalls<CompilerCalls>,
  { source, name, options }: CompileQuestion,
): CompileAnswer {
  const outputs = new Outputs(16);
  const refuse = (call: keyof CompilerCalls, number: number, log = ""): CompileAnswer => ({
    problem: { call: symbols[call], number, log },
  });
  const text = new Uint8Array(Buffer.from(`${source}\0`, "utf8"));
  const created = calls.createProgram(outputs.clear().address, addressOf(text), name, 0, null, null);
  if (created !== 0) return refuse("createProgram", created);
  const program = outputs.pointer();
  try {
    const compiled = calls.compileProgram(program, options.length, options);
    if (compiled !== 0) return refuse("compileProgram", compiled, readLog(calls, program, outputs));
    const sized = calls.codeSize(program, outputs.clear().address);
    if (sized !== 0) return refuse("codeSize", sized);
    const code = new Uint8Array(outputs.size());
    if (code.byteLength === 0) return refuse("codeSize", 0, "the compiler returned no code");
    const read = calls.code(program, addressOf(code.buffer));
    return read === 0 ? { code } : refuse("code", read);
  } finally {
    outputs.view.setBigUint64(0, program, true);
    calls.destroyProgram(outputs.address);
  }
}

function readLog(calls: CompilerCalls, program: bigint, outputs: Outputs): string {
  if (calls.logSize(program, outputs.clear().address) !== 0) return "";
  const size = outputs.size();
  if (size <= 1) return "";
  const bytes = new ArrayBuffer(size);
  if (calls.log(program, addressOf(bytes)) !== 0) return "";
  const log = Buffer.from(bytes);
  const end = log.indexOf(0);
  return log.toString("utf8", 0, Math.min(end === -1 ? size : end, MAX_LOG_BYTES));
}
