// Builds the native addon on request, through `npm run addon` in this package's folder, so that npm's own node-gyp is
// found wherever the package is: in a checkout, in a project's node_modules, or among the global packages.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { basename, delimiter, dirname } from "node:path";
import { fileURLToPath } from "node:url";

/** Two folders up from both dist/cli and src/cli. */
const PACKAGE_FOLDER = fileURLToPath(new URL("../../", import.meta.url));

/** Settings of an outer npm that would misdirect the inner one. */
const OUTER_SETTINGS = /^npm_config_(?:global|location|prefix|local_prefix|workspaces?|dry_run|json|loglevel|silent)$/i;

/** Builds the addon; resolves with undefined on success, after the build tools have printed to stderr. */
export function buildAddon(): Promise<{ readonly reason: string } | undefined> {
  const [command, ...prefix] = npmCommand();
  const shell = command.endsWith(".cmd");
  return new Promise((resolve) => {
    const child = spawn(command, [...prefix, "run", "addon", "--silent"], {
      cwd: PACKAGE_FOLDER,
      env: environment(),
      // Standard output is reserved for the report.
      stdio: ["ignore", 2, 2],
      shell,
    });
    child.on("error", (error) =>
      resolve({ reason: `npm could not be started (${error.message}); install npm, or put it on the PATH` }),
    );
    child.on("close", (status) =>
      resolve(status === 0 ? undefined : { reason: "the native addon could not be built; the errors are above" }),
    );
  });
}

function npmCommand(): readonly [string, ...string[]] {
  const running = process.env["npm_execpath"];
  if (running !== undefined && basename(running).startsWith("npm") && existsSync(running))
    return [process.execPath, running];
  return [process.platform === "win32" ? "npm.cmd" : "npm"];
}

function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !OUTER_SETTINGS.test(name));
  const path = [process.env["PATH"], dirname(process.execPath)].filter(
    (folders) => folders !== undefined && folders !== "",
  );
  return { ...Object.fromEntries(kept), PATH: path.join(delimiter) };
}
