// Every endpoint of the server, one line each: the server registers its routes from this table, and /openapi.json is
// generated from it.

import type { Route, RouteFactory, ServerContext } from "../completion/route-context.js";
import { messages } from "./anthropic/messages/route.js";
import { engineState } from "./native/engine-state.js";
import { health } from "./native/health.js";
import { metrics } from "./native/metrics.js";
import { openApi } from "./native/openapi.js";
import { page } from "./native/page.js";
import { residency } from "./native/residency.js";
import { tokenizeRoutes } from "./native/tokenize.js";
import { ollamaChat } from "./ollama/chat.js";
import { ollamaEmbed } from "./ollama/embed.js";
import { ollamaGenerate } from "./ollama/generate.js";
import { ollamaModels } from "./ollama/models.js";
import { ollamaPull } from "./ollama/pull.js";
import { ollamaRefused } from "./ollama/refused.js";
import { chatCompletions } from "./openai/chat-completions/route.js";
import { completions } from "./openai/completions/route.js";
import { embeddings } from "./openai/embeddings.js";
import { models } from "./openai/models.js";
import { responses } from "./openai/responses/route.js";

const ENDPOINTS: readonly RouteFactory[] = [
  models,
  chatCompletions,
  completions,
  responses,
  embeddings,
  messages,
  ollamaChat,
  ollamaGenerate,
  ollamaEmbed,
  ollamaModels,
  ollamaPull,
  ollamaRefused,
  tokenizeRoutes,
  engineState,
  residency,
  health,
  metrics,
  page,
];

/** The routes of a server, with the one that describes them. */
export function createRoutes(context: ServerContext): readonly Route[] {
  const routes = ENDPOINTS.flatMap((create) => create(context));
  return [...routes, openApi(context, routes)];
}
