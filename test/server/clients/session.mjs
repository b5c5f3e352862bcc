// One session of a client with the scripted server, both in this process's network namespace. Takes the path of a job
// (JSON) and writes what came of it (JSON) to the path that the job names. `{url}` in arguments and environment is the
// server's address.

import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { startScriptedServer } from "./scripted-server.mjs";

function run({ command, args, cwd, env, timeoutMs }, url) {
  const filled = (text) => text.replaceAll("{url}", url);
  const variables = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, filled(value)]));
  return new Promise((resolve, reject) => {
    const child = spawn(command, args.map(filled), {
      cwd,
      env: { PATH: process.env.PATH, ...variables },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const output = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"])
      child[name].setEncoding("utf8").on("data", (text) => (output[name] += text));
    const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
    child.once("error", reject);
    child.once("close", (exitCode, signal) => {
      clearTimeout(timer);
      resolve({ exitCode, signal, ...output });
    });
  });
}

const job = JSON.parse(readFileSync(process.argv[2], "utf8"));
const server = await startScriptedServer(job);
try {
  const result = await run(job, server.url);
  const { exchanges, completions, log } = server;
  writeFileSync(job.outPath, JSON.stringify({ ...result, exchanges, completions, log: log.join("") }));
} finally {
  await server.stop();
}
