// Expands paths that begin with ~ as a shell would: the paths of chat commands and `--model=~/x.gguf` pass through no
// shell.

import { homedir } from "node:os";
import { join } from "node:path";

/** Replaces a leading ~ by the user's home folder. */
export function expandHome(path: string, home = homedir()): string {
  return /^~[/\\]/.test(path) ? join(home, path.slice(2)) : path;
}
