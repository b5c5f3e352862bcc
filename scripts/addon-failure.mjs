// Explains why a build of the native addon failed, from the tools' output: one reason and what to do about it. `kind`
// distinguishes missing tools ("tools": nothing is wrong with the sources) from sources that do not compile.

const AGAIN = "then run `rocmforge doctor --build`";
const TOOLS = "install Python 3, make and a C++17 compiler (on Debian: `apt-get install python3 make g++`)";
const TAIL_LINES = 30;

/**
 * An error in the addon's own code, which may quote any word below. A header that is not installed is a problem of the
 * machine, and so is a disk that is full while the compiler writes.
 */
const SOURCE_ERROR = /\.(?:cpp|h):\d+(?::\d+)?: (?:fatal )?error: (?!.*(?:napi|node_api)\.h|error writing to )/m;

/** Lines that only quote or comment: source text beside its number, notes, warnings. */
const ASIDE = /^\s*\d*\s*\||: (?:note|warning): /;

/** The first matching pattern counts. */
const CAUSES = [
  {
    pattern: /^node-gyp was not found/m,
    reason: "npm's node-gyp was not found",
    remedy: `install npm beside this Node, ${AGAIN}`,
  },
  {
    pattern: /^EBUSY: .*build-lock/m,
    reason: "another build has not ended",
    remedy: "if none is running, remove native/cpu/build-lock of this package and run `rocmforge doctor --build`",
  },
  {
    pattern: /(?:^|[:\]] |code )(?:ENOSPC\b|No space left on device)/im,
    reason: "the disk is full",
    remedy: `free some space, ${AGAIN}`,
  },
  {
    pattern:
      /(?:^|: )(?:EACCES|EPERM|EROFS): |^gyp ERR! code (?:EACCES|EPERM|EROFS)$|[:\]] (?:Permission denied|Read-only file system)\b/m,
    reason: "the package's folder may not be written",
    remedy: "run `rocmforge doctor --build` as the user who owns it",
  },
  {
    pattern: /^gyp ERR! .*(?:find Python|Could not find any Python)|^ModuleNotFoundError: /m,
    reason: "Python 3 is missing",
    remedy: `${TOOLS}, ${AGAIN}`,
  },
  {
    pattern: /\bnot found: g?make$|\bg?make: (?:command )?not found$|\bspawn g?make ENOENT/m,
    reason: "make is missing",
    remedy: `${TOOLS}, ${AGAIN}`,
  },
  {
    pattern:
      /(?:g\+\+|c\+\+|clang\+\+|\$CXX)['"]?: (?:No such file|command not found|not found)|(?:cannot execute|error trying to exec) .?cc1plus|^gyp ERR! .*(?:find Visual Studio|find VS|No Xcode or CLT)/im,
    reason: "a C++17 compiler is missing",
    remedy: `${TOOLS}, ${AGAIN}`,
  },
  {
    pattern:
      /^gyp ERR! .*(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|response downloading|FetchError|network connectivity)|fatal error: (?:node_api\.h: No such file|'node_api\.h' file not found)/m,
    reason: "the headers of this Node are not on this machine and could not be downloaded",
    remedy: `connect to the network, or point to a Node with include/node by \`npm_config_nodedir\`, ${AGAIN}`,
  },
  {
    pattern:
      /fatal error: (?:napi\.h: No such file|'napi\.h' file not found)|Error: Cannot find module 'node-addon-api'/,
    reason: "the package node-addon-api is not installed",
    remedy: `run \`npm install\`, ${AGAIN}`,
  },
  {
    pattern:
      /error: (?:unrecognized command[- ]line option|unknown argument: '-m|unsupported option '-m|invalid feature modifier|unknown value .* for '?-march)/,
    reason: "the C++ compiler is too old for this machine's instruction sets",
    remedy: `install GCC 10 or newer (CXX names the one to use), ${AGAIN}`,
  },
  {
    pattern:
      /fatal error: Killed signal|internal compiler error: Killed \(|signal 9 \[Killed\]|unable to execute command: Killed|^(?:cc1plus: )?(?:out of memory allocating|virtual memory exhausted)|^LLVM ERROR: out of memory|: Cannot allocate memory$|(?:^|\] )Killed$|: line \d+: +\d+ Killed\b/m,
    reason: "the compiler ran out of memory",
    remedy: `close something large, ${AGAIN}`,
  },
];

function tailOf(output) {
  return output.trimEnd().split("\n").slice(-TAIL_LINES).join("\n");
}

/** @returns {{ kind: "tools" | "sources", reason: string, remedy: string, tail: string }} */
export function explainBuild(output) {
  const tail = tailOf(output);
  const said = output
    .split("\n")
    .filter((line) => !ASIDE.test(line))
    .join("\n");
  const cause = SOURCE_ERROR.test(said) ? undefined : CAUSES.find(({ pattern }) => pattern.test(said));
  if (cause !== undefined) return { kind: "tools", reason: cause.reason, remedy: cause.remedy, tail };
  const complaint =
    /^.*\berror: .*$/m.exec(output)?.[0] ??
    /^gyp ERR! stack (.*)$/m.exec(output)?.[1] ??
    output.trim().split("\n").at(-1) ??
    "";
  return {
    kind: "sources",
    reason: `the C++ sources did not build: ${complaint.trim().slice(0, 300)}`,
    remedy: "`rocmforge doctor --build` tries again and shows what the compiler says",
    tail,
  };
}
