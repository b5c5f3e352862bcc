// A path that answers chats, in whatever API's form: whole, or as events. The form is a writer's, which is told what the
// model says and gives the answer, or the events that make it. Invariant: a stream begins with what the model first says,
// so that a chat that fails before has a status of its own.

import type { FastifyInstance } from "fastify";
import type { ChatEvent } from "./chat-reader.js";
import { type ChatJob, type ChatOutcome, type ChatRun, withChat } from "./chat-run.js";
import { declareWork, type Exchange, type ServerContext, streamEvents } from "./route-context.js";
import type { RequestError } from "../http/request-error.js";
import type { RequestForm } from "../schema/request-schema.js";

/** An event's type, where it has one, is its name in the stream as well. */
export interface WrittenEvent {
  readonly type?: string;
}

export interface ChatWriter<Event extends WrittenEvent> {
  begin(): Iterable<Event>;
  add(event: ChatEvent): Iterable<Event>;
  end(outcome: ChatOutcome): Iterable<Event>;
  /** After the end. */
  answer(outcome: ChatOutcome): object;
}

interface ChatBody {
  readonly stream?: boolean | undefined;
}

export interface ChatRoute<Body extends ChatBody, Event extends WrittenEvent, Writer extends ChatWriter<Event>> {
  readonly url: string;
  readonly form: RequestForm<Body>;
  readonly job: (exchange: Exchange<Body>) => ChatJob;
  readonly createWriter: (run: ChatRun, exchange: Exchange<Body>, job: ChatJob) => Writer;
  /** The last event of a stream that fails; the writer where it has begun. */
  readonly failure: (error: RequestError, exchange: Exchange<Body>, writer: Writer | undefined) => Event;
  /** What follows the last event. */
  readonly lastData?: string;
}

export function declareChatRoute<Body extends ChatBody, Event extends WrittenEvent, Writer extends ChatWriter<Event>>(
  app: FastifyInstance,
  context: ServerContext,
  route: ChatRoute<Body, Event, Writer>,
): void {
  const { url, form } = route;
  declareWork(app, context, {
    url,
    form,
    handle: (exchange) =>
      exchange.body.stream === true ? stream(context, exchange, route) : answer(context, exchange, route),
  });
}

function answer<Body extends ChatBody, Event extends WrittenEvent, Writer extends ChatWriter<Event>>(
  context: ServerContext,
  exchange: Exchange<Body>,
  route: ChatRoute<Body, Event, Writer>,
): Promise<object> {
  const job = route.job(exchange);
  return withChat(context, exchange, job, async (run) => {
    const writer = route.createWriter(run, exchange, job);
    const outcome = await run.read((event) => {
      exhaust(writer.add(event));
      return undefined;
    });
    exhaust(writer.end(outcome));
    return writer.answer(outcome);
  });
}

function exhaust(events: Iterable<WrittenEvent>): void {
  for (const _ of events);
}

function stream<Body extends ChatBody, Event extends WrittenEvent, Writer extends ChatWriter<Event>>(
  context: ServerContext,
  exchange: Exchange<Body>,
  route: ChatRoute<Body, Event, Writer>,
): Promise<undefined> {
  const job = route.job(exchange);
  let begun: Writer | undefined;
  return streamEvents(
    context,
    exchange,
    (output) =>
      withChat(context, exchange, job, async (run) => {
        const writer = route.createWriter(run, exchange, job);
        const sendAll = async (events: Iterable<Event>): Promise<void> => {
          for (const event of events) await output.send(event, event.type);
        };
        const begin = async (): Promise<void> => {
          if (begun !== undefined) return;
          begun = writer;
          await sendAll(writer.begin());
        };
        const outcome = await run.read(async (event) => {
          await begin();
          await sendAll(writer.add(event));
        });
        await begin();
        await sendAll(writer.end(outcome));
        if (route.lastData !== undefined) await output.sendText(route.lastData);
      }),
    (output, error) => {
      const event = route.failure(error, exchange, begun);
      void output.send(event, event.type);
    },
  );
}
