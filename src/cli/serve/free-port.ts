// A port that can be listened on: the default one, or the next that is free if another program has it.

import { createServer } from "node:net";

/** The address that `run` listens on, and `serve` unless another is given. */
export const LOCALHOST = "127.0.0.1";
/** How many ports are tried. */
const MAX_TRIES = 20;

/** The first free port from `first` on; `first` itself if none of the next ones is free, so that its error is reported. */
export async function freePort(first: number, host: string): Promise<number> {
  for (let port = first; port < first + MAX_TRIES; port++) if (await isFreePort(port, host)) return port;
  return first;
}

/** Whether a port can be listened on; port 0 always can, and a port that fails for another reason than its use counts as free. */
export async function isFreePort(port: number, host: string): Promise<boolean> {
  const server = createServer();
  try {
    return await new Promise<boolean>((resolve) => {
      server.once("error", (error) => resolve(!("code" in error && error.code === "EADDRINUSE")));
      server.listen({ port, host, exclusive: true }, () => resolve(true));
    });
  } finally {
    await new Promise<void>((resolve) => server.close(() => resolve()));
  }
}
