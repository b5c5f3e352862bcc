// From a chat's messages to the tokens of its prompt, with every limit checked before the work that it bounds.

import type { RenderedChat } from "../chat/chat-format.js";
import { certainSegments, type ChatPrompt, promptConversation, messageTexts, resolvePrompt } from "./chat-request.js";
import type { CompletionModel } from "./completion-model.js";
import type { CompletionContext } from "./completion-run.js";
import { checkCharacters, checkPromptTexts } from "./request-check.js";
import type { ChatRenderService, GrammarService } from "./services.js";
import type { Tokenization } from "./tokenization.js";

/** What every chat of one server or library shares. */
export interface ChatServices extends CompletionContext {
  readonly renderer: ChatRenderService;
  readonly grammars: GrammarService;
  readonly tokenization: Tokenization;
}

/** How a prompt is rendered. */
export interface RenderOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called with the prompt's text, for logs. */
  readonly onPrompt?: ((prompt: string) => void) | undefined;
  /** Tokens of the context that are kept for the reply; undefined if the prompt may exceed the context length. */
  readonly reservedTokens?: number;
}

const FIELD = "messages";

/** Renders and tokenizes a chat's prompt. */
export async function renderPrompt(
  { renderer, tokenization, limits }: ChatServices,
  model: CompletionModel,
  prompt: ChatPrompt,
  { signal, onPrompt, reservedTokens }: RenderOptions,
) {
  const resolved = resolvePrompt(prompt);
  checkCharacters(messageTexts(resolved.messages), limits.promptCharacters, FIELD);
  if (reservedTokens !== undefined)
    checkPromptTexts(limits, model, { texts: [certainSegments(resolved.messages)], field: FIELD }, reservedTokens);
  const showsNextTurn = reservedTokens !== undefined && model.keepsCheckpoints === true;
  const conversation = { ...promptConversation(resolved), showsNextTurn };
  const rendered: RenderedChat = await renderer.render(model, conversation, signal);
  checkCharacters([rendered.prompt], limits.promptCharacters, FIELD);
  onPrompt?.(rendered.prompt);
  const texts = [rendered.segments];
  if (reservedTokens !== undefined) checkPromptTexts(limits, model, { texts, field: FIELD }, reservedTokens);
  const { nextTurn, addSpecial } = rendered;
  const call = { kind: "encode", texts: nextTurn === undefined ? texts : [...texts, nextTurn], addSpecial } as const;
  const [tokens, nextTokens] = await tokenization.run(model, call, signal);
  return { resolved, rendered, tokens, checkpoints: sharedLengths(tokens, nextTokens) };
}

/** How many leading tokens the prompt and that of the next turn share, unless that is all or nothing. */
function sharedLengths(tokens: Int32Array, nextTokens: Int32Array | undefined): readonly number[] {
  if (nextTokens === undefined) return [];
  const shared = tokens.findIndex((token, index) => nextTokens[index] !== token);
  return shared > 0 ? [shared] : [];
}
