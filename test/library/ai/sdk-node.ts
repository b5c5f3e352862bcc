// The AI SDK of test/server/clients, and the Node that it needs.

import { existsSync } from "node:fs";
import { newerNode, packageFile } from "../../server/clients/session.js";

const newer = newerNode();

/** A Node that the AI SDK runs on. */
export const sdkNode: string = newer ?? process.execPath;

/** Why the AI SDK cannot be run here, if it cannot. */
export const sdkUnavailableReason: string | undefined = !existsSync(packageFile(".package-lock.json"))
  ? "test/server/clients is not installed; npm run test:full installs it"
  : newer === undefined
    ? "there is no Node 22 on this machine"
    : undefined;
