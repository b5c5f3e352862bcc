// The server with a written answer, on which the long tests of real clients stand: it starts and says what it is told.

import { expect, it } from "vitest";
import { describeCpu } from "../conformance/subjects.js";

interface ScriptedServer {
  readonly url: string;
  stop(): Promise<void>;
}

const MODULE = new URL("clients/scripted-server.mjs", import.meta.url).href;
const EMBEDDED = new URL("../../models/fable-10m-Q4_K_M.gguf", import.meta.url).pathname;

describeCpu("a scripted server", () => {
  it("answers what is written", async () => {
    const { startScriptedServer } = (await import(MODULE)) as {
      startScriptedServer(options: object): Promise<ScriptedServer>;
    };
    const server = await startScriptedServer({
      modelPath: EMBEDDED,
      modelName: "written",
      contextTokens: 512,
      rules: [{ when: "king", answer: "once there was a king" }],
    });
    try {
      const response = await fetch(`${server.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ messages: [{ role: "user", content: "Who is the king?" }] }),
      });
      expect(response.status).toBe(200);
      expect(await response.json()).toMatchObject({
        choices: [{ message: { content: "once there was a king" }, finish_reason: "stop" }],
      });
    } finally {
      await server.stop();
    }
  });
});
