// A web page that chats with a model of this process through the AI SDK. Node 22.18 or newer runs it as it is, in a project
// with the packages `rocmforge`, `ai` and `@ai-sdk/provider`:
//   node server.ts [model.gguf] [port]

import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { type ModelMessage, pipeTextStreamToResponse, streamText, toTextStream } from "ai";
import { embeddedModelPath } from "rocmforge";
import { createRocmForge } from "rocmforge/ai";

const [path = embeddedModelPath(), port = "8080"] = process.argv.slice(2);
const rocmforge = createRocmForge({ models: { local: path } });

async function chat(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const messages = (await json(request)) as ModelMessage[];
  const ending = new AbortController();
  // A client that disconnects, as the page's Stop button does, ends the generation at once.
  response.once("close", () => ending.abort());
  const { stream } = streamText({
    model: rocmforge("local"),
    instructions: "Answer briefly.",
    messages,
    maxOutputTokens: 200,
    abortSignal: ending.signal,
  });
  await pipeTextStreamToResponse({ response, stream: toTextStream({ stream }) });
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method === "POST" && request.url === "/chat") return await chat(request, response);
  if (request.url !== "/") return void response.writeHead(404).end();
  response.setHeader("content-type", "text/html; charset=utf-8");
  response.end(await readFile(new URL("page.html", import.meta.url)));
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: Error) => {
    if (!response.headersSent) response.writeHead(400);
    response.end(error.message);
  });
});
server.listen(Number(port), "127.0.0.1", () => {
  const address = server.address();
  console.log(`http://127.0.0.1:${typeof address === "object" ? address?.port : port}`);
});

process.once("SIGINT", stop).once("SIGTERM", stop);
function stop(): void {
  server.close(() => void rocmforge.dispose());
  server.closeAllConnections();
}
