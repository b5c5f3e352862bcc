// POST /api/generate: a prompt as one message of a chat, or raw, without the model's template.

import { z } from "zod";
import type { ChatResult } from "../../../completion/chat-event.js";
import type { ChatRequest } from "../../../completion/chat-request.js";
import type { SamplerOptions } from "../../../sampler/options.js";
import { handleChat } from "../../completion/chat-handler.js";
import { completePrompts, type PromptTask } from "../../completion/prompt-completion.js";
import { checkPromptCharacters } from "../../completion/prompt-field.js";
import {
  acquireModel,
  type Exchange,
  failStream,
  openEventStream,
  type PostRoute,
  type Route,
  sendAll,
  type ServerContext,
} from "../../completion/route-context.js";
import type { CompletionDelta, CompletionModel } from "../../../completion/completion-model.js";
import type { ServerLimits } from "../../http/limits.js";
import { ollamaErrorBody } from "../../http/request-error.js";
import type { RequestSchema } from "../../schema/request-schema.js";
import { generationFields, generationSettings, noImages, reasoningOf, responseFormatOf } from "./fields.js";
import { loadOnly } from "./load-only.js";
import { shownName } from "./model-names.js";
import { OllamaWriter, responseForm } from "./writer.js";

const FIELD_NAMES = { messages: "prompt", responseFormat: "format" };

function bodySchema(limits: ServerLimits) {
  return z.object({
    ...generationFields(limits),
    prompt: z.string().optional(),
    system: z.string().optional(),
    raw: z.boolean().optional().describe("Whether the prompt is used as it is, without the model's template"),
    images: noImages,
  });
}

type GenerateBody = z.infer<ReturnType<typeof bodySchema>>;
type GenerateExchange = Exchange<GenerateBody>;

/** The schema of a request to /api/generate. */
export function generateSchema(limits: ServerLimits): RequestSchema<GenerateBody> {
  return {
    fields: bodySchema(limits),
    withoutEffect: ["truncate", "shift"],
    refused: {
      suffix: { instead: "text is generated after a prompt only, not before a suffix", unless: [""] },
      template: { instead: "the model's own template is used; send a raw prompt to use none", unless: [""] },
      context: { instead: "use /api/chat, whose messages hold the conversation", unless: [[]] },
    },
  };
}

/** The endpoint of Ollama's generations. */
export function ollamaGenerate(context: ServerContext): readonly Route[] {
  const { limits } = context.options;
  const route: PostRoute<GenerateBody> = {
    method: "POST",
    path: "/api/generate",
    summary: "Text for a prompt, in Ollama's API",
    schema: generateSchema(limits),
    streams: "ndjson",
    fieldNames: FIELD_NAMES,
    handle: (exchange) => generate(context, exchange),
  };
  return [route];
}

async function generate(context: ServerContext, exchange: GenerateExchange): Promise<object | undefined> {
  const { prompt = "", raw = false, system = "" } = exchange.body;
  if (prompt === "" && system === "") return await loadOnly(context, exchange, responseForm);
  if (raw || (system === "" && !(await hasTemplate(context, exchange)))) return await completeRaw(context, exchange);
  return await handleChat(context, exchange, {
    chatRequest: ({ body }) => promptRequest(body, context.options.sampling),
    createWriter: ({ model }, _, loadMs) => writerFor(model, exchange, loadMs),
    failure: (error) => ({ ...ollamaErrorBody(error) }),
    streamsByDefault: true,
    framing: "ndjson",
  });
}

/** A model without a template of its own was not trained for chats: as in Ollama, it continues the prompt itself. */
async function hasTemplate(context: ServerContext, exchange: GenerateExchange): Promise<boolean> {
  // Not held until the reply: two leases of one request could wait for each other's end.
  using lease = await acquireModel(context, exchange, exchange.body.model);
  return lease.model.chatTemplates.default !== undefined;
}

function promptRequest(body: GenerateBody, defaults: Partial<SamplerOptions>): ChatRequest {
  const { prompt = "", system = "" } = body;
  return {
    messages: [
      ...(system === "" ? [] : [{ role: "system", content: system } as const]),
      ...(prompt === "" ? [] : [{ role: "user", content: prompt } as const]),
    ],
    responseFormat: responseFormatOf(body),
    ...reasoningOf(body),
    ...generationSettings(body, defaults),
  };
}

function writerFor(model: CompletionModel, { body, reply }: GenerateExchange, loadMs: number): OllamaWriter {
  return new OllamaWriter({
    model: shownName(model.name, body.model),
    tokenizer: model.tokenizer,
    form: responseForm,
    hasLogprobs: body.logprobs === true,
    loadMs,
    elapsedMs: () => reply.elapsedTime,
  });
}

function rawTask({ limits, sampling }: ServerContext["options"], body: GenerateBody): PromptTask {
  const prompts = [body.prompt ?? ""];
  checkPromptCharacters(prompts, limits.promptCharacters, "prompt");
  return {
    prompts,
    settings: generationSettings(body, sampling),
    responseFormat: responseFormatOf(body),
    // A client that writes the template itself writes control tokens; a prompt for a model without one is plain text.
    parseSpecial: body.raw === true,
  };
}

async function completeRaw(context: ServerContext, exchange: GenerateExchange): Promise<object | undefined> {
  const { body, request, inFlight } = exchange;
  const task = rawTask(context.options, body);
  if (context.options.logPrompts) request.log.info({ prompts: task.prompts }, "prompts");
  using output = (body.stream ?? true) ? openEventStream(context, exchange, "ndjson") : undefined;
  try {
    const askedMs = performance.now();
    using lease = await acquireModel(context, exchange, body.model);
    const writer = writerFor(lease.model, exchange, performance.now() - askedMs);
    const texts = new RawText();
    const [summary] = await completePrompts(context, inFlight, lease.model, task, (_, delta) =>
      sendAll(output, writer.add(texts.add(delta, output === undefined))),
    );
    const result = texts.result(summary);
    if (output === undefined) return writer.response(result);
    await sendAll(output, writer.end(result));
    return undefined;
  } catch (thrown) {
    return failStream(output, exchange, thrown, (error) => ({ ...ollamaErrorBody(error) }));
  }
}

/** A raw completion as events and result of a chat whose whole output is text. */
class RawText {
  #text = "";
  readonly #tokens: { readonly tokens: CompletionDelta["logprobs"]; readonly droppedBytes: number }[] = [];

  add({ text, logprobs }: CompletionDelta, keeps: boolean) {
    const tokens = { tokens: logprobs, droppedBytes: 0 };
    if (keeps) {
      this.#text += text;
      this.#tokens.push(tokens);
    }
    return { type: "text", choice: 0, text, ...tokens } as const;
  }

  result(summary: ChatResult["summary"]): ChatResult {
    const { reason, stop } = summary.choices[0];
    const { promptTokens, cachedTokens, generatedTokens } = summary;
    return {
      choices: [{ text: this.#text, reasoning: "", toolCalls: [], textTokens: this.#tokens, reason, stop }],
      usage: { promptTokens, cachedTokens, completionTokens: generatedTokens, reasoningTokens: 0 },
      summary,
    };
  }
}
