// Opens a page in the user's browser, if this machine has a display that a browser could be shown on.

import { spawn } from "node:child_process";

/** The program that opens an address, and its arguments before the address. */
type Opener = readonly [program: string, ...args: string[]];

/** How long the program that opens pages may take; some wait until the browser is closed. */
const OPENING_MS = 3000;

/** The program that opens pages on this machine; undefined if no display is known. */
export function pageOpener(
  platform: NodeJS.Platform = process.platform,
  environment: NodeJS.ProcessEnv = process.env,
): Opener | undefined {
  if (platform === "darwin") return isSet(environment["SSH_CONNECTION"]) ? undefined : ["open"];
  // `start` is a command of the shell, which would interpret the address; this is the function that it calls.
  if (platform === "win32") return ["rundll32", "url.dll,FileProtocolHandler"];
  const hasDisplay = isSet(environment["DISPLAY"]) || isSet(environment["WAYLAND_DISPLAY"]);
  return hasDisplay ? ["xdg-open"] : undefined;
}

/** Opens an address; resolves with whether that seems to have worked. Never rejects, and keeps no process alive. */
export async function openPage(url: string, opener: Opener | undefined = pageOpener()): Promise<boolean> {
  if (opener === undefined) return false;
  const [program, ...args] = opener;
  return await new Promise<boolean>((resolve) => {
    const child = spawn(program, [...args, url], { stdio: "ignore", detached: true });
    const timer = setTimeout(() => resolve(true), OPENING_MS).unref();
    const settle = (opened: boolean): void => {
      clearTimeout(timer);
      resolve(opened);
    };
    child.on("error", () => settle(false));
    child.on("exit", (status) => settle(status === 0));
    child.unref();
  });
}

function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== "";
}
