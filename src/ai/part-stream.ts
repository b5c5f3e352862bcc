// A chat as the SDK's stream. Invariants: nothing is computed before the stream is read; an abort, or leaving the stream,
// ends the chat at once and frees its memory, whatever the chat waits for; an abort fails the stream, as it fails a
// request over HTTP, and any other failure is a part of it.

import type { LanguageModelV4ResponseMetadata, LanguageModelV4StreamPart, SharedV4Warning } from "@ai-sdk/provider";
import { RocmForgeError } from "../errors.js";
import type { Chat } from "../model/chat.js";
import { failedEnd, replyEnd } from "./reply-content.js";
import { ReplyParts } from "./reply-parts.js";

/** A chat that has not started, and what its stream begins with. */
export interface StreamedChat {
  readonly chat: Chat<unknown>;
  readonly warnings: SharedV4Warning[];
  readonly response: LanguageModelV4ResponseMetadata;
  /** Ends the chat. */
  readonly ending: AbortController;
  /** The signal of the call. */
  readonly abortSignal: AbortSignal | undefined;
}

type PartGenerator = AsyncGenerator<LanguageModelV4StreamPart, void, undefined>;

/** The stream of a chat's parts; cancelling it ends the chat. */
export function partStream(streamed: StreamedChat): ReadableStream<LanguageModelV4StreamPart> {
  const parts = streamParts(streamed);
  return new ReadableStream<LanguageModelV4StreamPart>(
    {
      async pull(controller) {
        const { done, value } = await parts.next();
        if (done === true) controller.close();
        else controller.enqueue(value);
      },
      async cancel(reason) {
        // A generator that waits for a token takes notice of `return` after it; the signal reaches the engine now.
        streamed.ending.abort(reason);
        await parts.return().catch(() => {});
      },
    },
    { highWaterMark: 0 },
  );
}

async function* streamParts({ chat, warnings, response, ending, abortSignal }: StreamedChat): PartGenerator {
  yield { type: "stream-start", warnings };
  yield { type: "response-metadata", ...response };
  using _ = linkAbort(abortSignal, ending);
  const parts = new ReplyParts();
  try {
    for await (const event of chat) yield* parts.read(event);
    ending.signal.throwIfAborted();
    yield* parts.close();
    yield { type: "finish", ...replyEnd(await chat.result) };
  } catch (error) {
    if (ending.signal.aborted) throw error;
    yield* parts.close();
    yield { type: "error", error };
    yield { type: "finish", ...failedEnd(error instanceof RocmForgeError ? error.code : "error") };
  }
}

/** Aborts `ending` with the signal; disposing it forgets the signal, which may outlive many calls. */
function linkAbort(signal: AbortSignal | undefined, ending: AbortController): Disposable {
  const abort = (): void => ending.abort(signal?.reason);
  if (signal?.aborted === true) abort();
  signal?.addEventListener("abort", abort, { once: true });
  return { [Symbol.dispose]: () => signal?.removeEventListener("abort", abort) };
}
