// Why a build of the native addon failed, told from what the tools said: one reason and what to do about it.
// `kind` parts machines without the tools ("tools": nothing is wrong with the sources) from sources that do not compile.

const AGAIN = "then run `rocmforge doctor --build`";
const TOOLS = "install Python 3, make and a C++17 compiler (on Debian: `apt-get install python3 make g++`)";
const TAIL_LINES = 30;

/** The first pattern that fits speaks. */
const CAUSES = [
  { pattern: /node-gyp was not found/, reason: "npm's node-gyp was not found", remedy: `install npm beside this Node, ${AGAIN}` },
  { pattern: /ENOSPC|No space left/i, reason: "the disk is full", remedy: `free some space, ${AGAIN}` },
  {
    pattern: /\b(?:EACCES|EPERM|EROFS)\b|Permission denied|Read-only file system/,
    reason: "the package's folder may not be written",
    remedy: "run `rocmforge doctor --build` as the user who owns it",
  },
  { pattern: /find Python|Could not find any Python|ModuleNotFoundError/, reason: "Python 3 is missing", remedy: `${TOOLS}, ${AGAIN}` },
  { pattern: /not found: make|make: (?:command )?not found|spawn g?make ENOENT/, reason: "make is missing", remedy: `${TOOLS}, ${AGAIN}` },
  {
    pattern: /(?:g\+\+|c\+\+|clang\+\+|\bcc1plus\b|\$CXX)['"]?: (?:No such file|command not found|not found)|(?:No such file or directory|cannot execute).*cc1plus|cc1plus.*No such file|find Visual Studio|No Xcode or CLT/i,
    reason: "a C++17 compiler is missing",
    remedy: `${TOOLS}, ${AGAIN}`,
  },
  {
    pattern: /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|response downloading|FetchError|network connectivity|node_api\.h: No such file/,
    reason: "the headers of this Node are not on this machine and could not be downloaded",
    remedy: `connect to the network, or point to a Node with include/node by \`npm_config_nodedir\`, ${AGAIN}`,
  },
  {
    pattern: /napi\.h: No such file|Cannot find module 'node-addon-api'/,
    reason: "the package node-addon-api is not installed",
    remedy: `run \`npm install\`, ${AGAIN}`,
  },
  {
    pattern: /unrecognized command[- ]line option|unknown argument: '-m|unsupported option '-m/,
    reason: "the C++ compiler is too old for this machine's instruction sets",
    remedy: `install GCC 9, Clang 9 or newer (CXX names the one to use), ${AGAIN}`,
  },
  { pattern: /Killed|out of memory|virtual memory exhausted/i, reason: "the compiler ran out of memory", remedy: `close something large, ${AGAIN}` },
];

function tailOf(output) {
  return output.trimEnd().split("\n").slice(-TAIL_LINES).join("\n");
}

/** @returns {{ kind: "tools" | "sources", reason: string, remedy: string, tail: string }} */
export function explainBuild(output) {
  const tail = tailOf(output);
  const cause = CAUSES.find(({ pattern }) => pattern.test(output));
  if (cause !== undefined) return { kind: "tools", reason: cause.reason, remedy: cause.remedy, tail };
  const complaint = /^.*\berror: .*$/m.exec(output)?.[0] ?? /^gyp ERR! stack (.*)$/m.exec(output)?.[1] ?? output.trim().split("\n").at(-1) ?? "";
  return {
    kind: "sources",
    reason: `the C++ sources did not build: ${complaint.trim().slice(0, 300)}`,
    remedy: "`rocmforge doctor --build` tries again and shows what the compiler says",
    tail,
  };
}
