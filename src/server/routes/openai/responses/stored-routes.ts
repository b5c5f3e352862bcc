// GET and DELETE /v1/responses/{id}, and GET /v1/responses/{id}/input_items.

import type { FastifyRequest } from "fastify";
import { z } from "zod";
import type { PlainRoute, ServerContext } from "../../../completion/route-context.js";
import { RequestError } from "../../../http/request-error.js";
import { problemOf } from "../../../schema/request-schema.js";
import type { Item } from "./items.js";
import type { ResponseStore, StoredResponse } from "./store.js";

/** Limits of OpenAI's API. */
const DEFAULT_LISTED = 20;
const MOST_LISTED = 100;

const listQuery = z.object({
  limit: z.coerce.number().int().min(1).max(MOST_LISTED).optional(),
  order: z.enum(["asc", "desc"]).optional(),
  after: z.string().optional(),
});

/** The endpoints of stored responses. */
export function storedResponses({ access }: ServerContext, store: ResponseStore): readonly PlainRoute[] {
  const path = "/v1/responses/{id}";
  const stored = (request: FastifyRequest): StoredResponse => {
    const id = idOf(request);
    const response = store.get(access.owner(request.headers), id);
    if (response === undefined) throw notFound(id);
    return response;
  };
  return [
    {
      method: "GET",
      path,
      summary: "A stored response",
      handle: (request, reply) => {
        const { stream } = request.query as { readonly stream?: unknown };
        if (stream === "true")
          throw refused("stream", "[stream] is not supported: the events of a response are not stored; leave it out");
        return reply.send(stored(request).response);
      },
    },
    {
      method: "DELETE",
      path,
      summary: "Deletes a stored response",
      handle: (request, reply) => {
        const id = idOf(request);
        if (!store.delete(access.owner(request.headers), id)) throw notFound(id);
        return reply.send({ id, object: "response", deleted: true });
      },
    },
    {
      method: "GET",
      path: `${path}/input_items`,
      summary: "The input items of a stored response, page by page",
      handle: (request, reply) => reply.send(listed(stored(request).input, request.query)),
    },
  ];
}

function idOf({ params }: FastifyRequest): string {
  return (params as { readonly id: string }).id;
}

function listed(items: readonly Item[], query: unknown): object {
  const read = problemOf(listQuery, query);
  if (!("value" in read)) throw refused(String(read.path[0]), `[${String(read.path[0])}] ${read.message}`);
  const { limit = DEFAULT_LISTED, order = "desc", after } = read.value;
  const ordered = order === "asc" ? items : items.toReversed();
  const start = after === undefined ? 0 : ordered.findIndex((item) => item.id === after) + 1;
  if (after !== undefined && start === 0)
    throw refused(
      "after",
      `[after] expected the id of one of the items, found ${JSON.stringify(after.slice(0, MOST_LISTED))}`,
    );
  const data = ordered.slice(start, start + limit);
  return {
    object: "list",
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: start + limit < ordered.length,
  };
}

function notFound(id: string): RequestError {
  return new RequestError(
    `[id] response ${JSON.stringify(id)} not found: it was not stored, has expired or was deleted`,
    {
      status: 404,
      code: "response_not_found",
      param: "id",
    },
  );
}

function refused(param: string, message: string): RequestError {
  return new RequestError(message, { status: 400, code: "invalid_value", param });
}
