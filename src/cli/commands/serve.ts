// `rocmforge serve`: serves models over HTTP with OpenAI-compatible endpoints, until a signal stops it.

import { defineCommand } from "../command.js";
import { greetingText } from "../serve/greeting.js";
import { SERVE_OPTIONS } from "../serve/serve-options.js";
import { serveUntilStopped } from "../serve/serve-until-stopped.js";

const NAME = "serve";

/** The command `serve`. */
export const serve = defineCommand({
  name: NAME,
  summary: "serves models over HTTP with OpenAI-compatible endpoints",
  about: [
    "Clients of OpenAI's, Anthropic's and Ollama's APIs work unchanged: /v1/chat/completions, /v1/completions,",
    "/v1/embeddings, /v1/responses, /v1/messages, /api/chat and the rest of /api; /openapi.json describes everything.",
    "Concurrent requests are batched. The first SIGTERM or Ctrl-C refuses new requests and waits for in-flight ones; the",
    "second exits at once.",
  ],
  positionals: [],
  options: SERVE_OPTIONS,
  examples: [
    { what: "a model on localhost", line: "rocmforge serve -m model.gguf" },
    {
      what: "two models under other names, on all interfaces, with API keys",
      line: "rocmforge serve -m small=a.gguf -m large=b.gguf --host 0.0.0.0 --api-key-file keys.txt",
    },
  ],
  run(values) {
    return serveUntilStopped({
      command: NAME,
      values,
      onReady: ({ url, ollamaUrl, models }, { needsKey }) =>
        greetingText({ url, ollamaUrl, models: models(), needsKey, hasPage: !values["no-page"] }),
    });
  },
});
