// The responses of /v1/responses: a list of output items, and the events that build it. One writer makes both; a whole
// response ignores the events. Invariants: items open and close in order, one at a time; sequence numbers have no gaps;
// the items of the last event are those of the events before.

import { makeId, nowSeconds } from "../../../completion/response-head.js";
import type { ChatEvent, ChatResult } from "../../../../completion/chat-event.js";
import type { Tokenizer } from "../../../../tokenizer/tokenizer.js";
import type { RequestError } from "../../../http/request-error.js";
import { type ShownLogprob, showLogprobs } from "../../../completion/shown-logprobs.js";
import { INCLUDE_REASONING, isFunction, type ResponseBody } from "./request.js";
import { encodedReasoning, type Item } from "./items.js";

/** An event of a streamed response. */
interface ResponseEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

type ItemStatus = "in_progress" | "completed" | "incomplete";

interface OpenItem {
  readonly id: string;
  readonly kind: "message" | "reasoning" | "function_call";
  readonly call?: { readonly id: string; readonly name: string };
  text: string;
  readonly logprobs: ShownLogprob[];
}

type Events = Generator<ResponseEvent, void, undefined>;

/** What the response needs besides the request. */
interface ResponseWriterOptions {
  readonly model: string;
  readonly tokenizer: Tokenizer;
  /** Called with the complete response before the last event is sent. */
  readonly keep: (id: string, response: object, output: readonly Item[]) => void;
}

/** Writes a chat in the form of OpenAI's Responses API. */
export class ResponseWriter {
  readonly id = makeId("resp_");
  readonly #created = nowSeconds();
  readonly #body: ResponseBody;
  readonly #options: ResponseWriterOptions;
  readonly #output: Item[] = [];
  #item: OpenItem | undefined;
  #sequence = 0;

  constructor(body: ResponseBody, options: ResponseWriterOptions) {
    this.#body = body;
    this.#options = options;
  }

  *begin(): Events {
    yield this.#event("response.created", { response: this.#response("in_progress") });
    yield this.#event("response.in_progress", { response: this.#response("in_progress") });
  }

  *add(event: ChatEvent): Events {
    switch (event.type) {
      case "text":
        yield* this.#addText(event.text, showLogprobs(this.#options.tokenizer, event));
        break;
      case "reasoning":
        yield* this.#open("reasoning");
        yield this.#grow("response.reasoning_text.delta", event.text, { content_index: 0 });
        break;
      case "tool-call-start":
        yield* this.#close("completed");
        yield* this.#open("function_call", { id: event.id, name: event.name });
        break;
      case "tool-call-delta":
        if (this.#item?.kind === "function_call")
          yield this.#grow("response.function_call_arguments.delta", event.text);
        break;
      case "tool-call":
        yield* this.#close("completed");
        break;
      case "finish":
        break;
      default:
        event satisfies never;
    }
  }

  /** The last events; the final one contains the whole response. */
  *end(result: ChatResult): Events {
    const cut = isCut(result);
    yield* this.#close(cut ? "incomplete" : "completed");
    const response = this.response(result);
    this.#options.keep(this.id, response, this.#output);
    yield this.#event(cut ? "response.incomplete" : "response.completed", { response });
  }

  fail(error: RequestError): ResponseEvent {
    this.#item = undefined;
    const code = error.status === 429 ? "rate_limit_exceeded" : "server_error";
    return this.#event("response.failed", {
      response: { ...this.#response("failed"), error: { code, message: error.message } },
    });
  }

  response(result: ChatResult): object {
    const cut = isCut(result);
    const { promptTokens, generatedTokens, cachedTokens } = result.summary;
    return {
      ...this.#response(cut ? "incomplete" : "completed"),
      completed_at: cut ? null : nowSeconds(),
      incomplete_details: cut ? { reason: "max_output_tokens" } : null,
      usage: {
        input_tokens: promptTokens,
        input_tokens_details: { cached_tokens: cachedTokens },
        output_tokens: generatedTokens,
        output_tokens_details: { reasoning_tokens: result.usage.reasoningTokens },
        total_tokens: promptTokens + generatedTokens,
      },
    };
  }

  *#addText(text: string, logprobs: readonly ShownLogprob[]): Events {
    // Tokens of a call, or of white space around it, belong to no text.
    if (text === "" && this.#item?.kind !== "message") return;
    yield* this.#open("message");
    for (const shown of logprobs) this.#item?.logprobs.push(shown);
    yield this.#grow("response.output_text.delta", text, { content_index: 0, logprobs });
  }

  *#open(kind: OpenItem["kind"], call?: { readonly id: string; readonly name: string }): Events {
    if (this.#item?.kind === kind && call === undefined) return;
    yield* this.#close("completed");
    const prefix = { message: "msg_", reasoning: "rs_", function_call: "fc_" }[kind];
    this.#item = { id: makeId(prefix), kind, text: "", logprobs: [], ...(call === undefined ? {} : { call }) };
    yield this.#event("response.output_item.added", {
      output_index: this.#output.length,
      item: this.#itemOf(this.#item, "in_progress"),
    });
    if (kind !== "function_call")
      yield this.#event("response.content_part.added", {
        ...this.#place(),
        content_index: 0,
        part: partOf(this.#item),
      });
  }

  *#close(status: ItemStatus): Events {
    const item = this.#item;
    if (item === undefined) return;
    const place = this.#place();
    if (item.kind === "function_call") {
      yield this.#event("response.function_call_arguments.done", {
        ...place,
        name: item.call?.name,
        arguments: item.text,
      });
    } else {
      const fields = { ...place, content_index: 0, text: item.text };
      if (item.kind === "message")
        yield this.#event("response.output_text.done", { ...fields, logprobs: item.logprobs });
      else yield this.#event("response.reasoning_text.done", fields);
      yield this.#event("response.content_part.done", { ...place, content_index: 0, part: partOf(item) });
    }
    const whole = this.#itemOf(item, status);
    yield this.#event("response.output_item.done", { output_index: this.#output.length, item: whole });
    this.#output.push(whole);
    this.#item = undefined;
  }

  #grow(type: string, delta: string, fields: object = {}): ResponseEvent {
    if (this.#item !== undefined) this.#item.text += delta;
    return this.#event(type, { ...this.#place(), ...fields, delta });
  }

  #place(): { readonly item_id: string | undefined; readonly output_index: number } {
    return { item_id: this.#item?.id, output_index: this.#output.length };
  }

  #itemOf(item: OpenItem, status: ItemStatus): Item {
    const { id, kind, text, call } = item;
    switch (kind) {
      case "message":
        return {
          id,
          type: "message",
          role: "assistant",
          status,
          content: status === "in_progress" ? [] : [textPart(item)],
        };
      case "reasoning": {
        // Some clients return only the encrypted content of a reasoning item.
        const encrypted =
          this.#body.include?.includes(INCLUDE_REASONING) === true ? { encrypted_content: encodedReasoning(text) } : {};
        return {
          id,
          type: "reasoning",
          status,
          summary: [],
          content: status === "in_progress" ? [] : [thoughtPart(item)],
          ...encrypted,
        };
      }
      case "function_call":
        return { id, type: "function_call", status, call_id: call?.id ?? "", name: call?.name ?? "", arguments: text };
      default:
        return kind satisfies never;
    }
  }

  #event(type: string, fields: object): ResponseEvent {
    return { type, sequence_number: this.#sequence++, ...fields };
  }

  /** The response so far, with the fields of the request, which the API repeats. */
  #response(status: string): object {
    const body = this.#body;
    return {
      id: this.id,
      object: "response",
      created_at: this.#created,
      status,
      background: false,
      error: null,
      incomplete_details: null,
      instructions: body.instructions ?? null,
      max_output_tokens: body.max_output_tokens ?? null,
      metadata: body.metadata ?? {},
      model: this.#options.model,
      output: [...this.#output],
      parallel_tool_calls: body.parallel_tool_calls ?? true,
      previous_response_id: body.previous_response_id ?? null,
      reasoning: { effort: body.reasoning?.effort ?? null, summary: null },
      store: body.store ?? true,
      temperature: body.temperature ?? null,
      text: { format: body.text?.format ?? { type: "text" } },
      tool_choice: body.tool_choice ?? "auto",
      // Without the tools that were skipped.
      tools: (body.tools ?? []).filter(isFunction),
      top_logprobs: body.top_logprobs ?? 0,
      top_p: body.top_p ?? null,
      truncation: body.truncation ?? "disabled",
      usage: null,
    };
  }
}

/** Whether a limit on tokens or time ended the response. */
function isCut({ choices: [choice] }: ChatResult): boolean {
  return choice.reason === "length" || choice.reason === "timeout";
}

function partOf(item: OpenItem): object {
  return item.kind === "reasoning" ? thoughtPart(item) : textPart(item);
}

function thoughtPart({ text }: OpenItem) {
  return { type: "reasoning_text", text } as const;
}

function textPart({ text, logprobs }: OpenItem) {
  return { type: "output_text", text, annotations: [], logprobs } as const;
}
