// A route handler as Next.js and other frameworks with Web requests have them: a chat as JSON in, text as a stream out.
// In Next.js this file is app/api/chat/route.ts, and next.config has serverExternalPackages: ["rocmforge"].
//   curl -N http://localhost:3000/api/chat -d '{"messages": [{"role": "user", "content": "Who?"}]}'

import { embeddedModelPath, loadModel, type Model, RocmForgeError } from "rocmforge";
import { z } from "zod";

/** Native code needs Node, not an edge runtime. */
export const runtime = "nodejs";

const MAX_CHARACTERS = 20_000;
const MAX_BODY_BYTES = 1_000_000;

const Body = z.object({
  messages: z
    .array(z.object({ role: z.enum(["system", "user", "assistant"]), content: z.string().max(MAX_CHARACTERS) }))
    .min(1)
    .max(100),
});

/** Opened at the first request, once, and kept when a development server loads this module again. */
const shared = globalThis as { rocmforgeModel?: Promise<Model> | undefined };
const openModel = (): Promise<Model> =>
  (shared.rocmforgeModel ??= loadModel(process.env["MODEL"] ?? embeddedModelPath()).catch((error: unknown) => {
    // The next request tries again.
    shared.rocmforgeModel = undefined;
    throw error;
  }));

export async function POST(request: Request): Promise<Response> {
  // Browsers and most clients state the length; a proxy in front should limit the others.
  if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY_BYTES) return new Response(null, { status: 413 });
  const body = Body.safeParse(await request.json().catch(() => undefined));
  if (!body.success) return Response.json({ error: z.prettifyError(body.error) }, { status: 400 });
  try {
    const model = await openModel();
    // The signal ends the generation when the client disconnects.
    const chat = model.chat(body.data.messages, { maxTokens: 300, signal: request.signal });
    const events = chat[Symbol.asyncIterator]();
    // The first event comes before the response, so that a prompt that is too long gets a status of its own.
    let next = await events.next();
    const stream = new ReadableStream<Uint8Array>({
      async pull(controller) {
        while (next.done !== true && next.value.type !== "text") next = await events.next();
        if (next.done === true) return controller.close();
        controller.enqueue(new TextEncoder().encode(next.value.type === "text" ? next.value.text : ""));
        next = await events.next();
      },
      async cancel() {
        await events.return();
      },
    });
    return new Response(stream, { headers: { "content-type": "text/plain; charset=utf-8" } });
  } catch (error) {
    if (!(error instanceof RocmForgeError)) throw error;
    const status = error.code === "CONTEXT_OVERFLOW" ? 413 : error.code === "SERVING_QUEUE_FULL" ? 429 : 500;
    return Response.json({ error: error.message, code: error.code }, { status });
  }
}
