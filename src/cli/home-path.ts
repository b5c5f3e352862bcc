// Paths that begin with ~, as a shell would expand them: no shell sees the paths of chat commands, nor `--model=~/x.gguf`.

import { homedir } from "node:os";
import { join } from "node:path";

export function expandHome(path: string, home = homedir()): string {
  return /^~[/\\]/.test(path) ? join(home, path.slice(2)) : path;
}
