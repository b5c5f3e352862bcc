// GET /: the chat page for browsers, and for others the text by which Ollama's clients recognise a server; the page's files
// under /page. The page is built in advance and uses the endpoints that every client has. Its policy allows nothing but its own files: no inline script, no style attribute, no other server.

import type { FastifyReply, FastifyRequest } from "fastify";
import type { PlainRoute, RouteFactory } from "../../completion/route-context.js";
import { type PageFile, PageFiles } from "../../http/page-files.js";
import { RequestError } from "../../http/request-error.js";

const INDEX = "index.html";
/** The answer by which Ollama's clients recognise a server. */
const RUNNING = "Ollama is running";
const NOT_MODIFIED_STATUS = 304;

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const PAGE_HEADERS = {
  "content-security-policy": CONTENT_SECURITY_POLICY,
  "cross-origin-opener-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  // A new version of the package has a page that names other files.
  "cache-control": "no-cache",
} as const;

/** File names contain a hash of their contents. */
const FILE_HEADERS = {
  "cache-control": "public, max-age=31536000, immutable",
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff",
} as const;

/** The root, and the files of the chat page unless it is turned off. */
export const page: RouteFactory = ({ options }) => {
  const files = options.page === true ? new PageFiles() : undefined;
  return files === undefined ? [rootRoute(files)] : [rootRoute(files), fileRoute(files)];
};

function rootRoute(files: PageFiles | undefined): PlainRoute {
  return {
    method: "GET",
    path: "/",
    summary:
      "The chat page for browsers (Accept: text/html), and a line of text for Ollama's clients; needs no key, and the page asks for one if the server does",
    needsKey: false,
    handle: async (request, reply) => {
      reply.header("vary", "Accept, Accept-Encoding");
      if (!/\btext\/html\b/i.test(request.headers.accept ?? ""))
        return reply.type("text/plain; charset=utf-8").send(RUNNING);
      const file = await files?.find(INDEX, request.headers["accept-encoding"]);
      return answer(request, reply.headers(PAGE_HEADERS), file);
    },
  };
}

function fileRoute(files: PageFiles): PlainRoute {
  return {
    method: "GET",
    path: "/page/{id}",
    summary: "A file of the chat page; needs no key",
    needsKey: false,
    handle: async (request, reply) => {
      const { id } = request.params as { readonly id: string };
      const file = id === INDEX ? undefined : await files.find(id, request.headers["accept-encoding"]);
      return answer(request, reply.header("vary", "Accept-Encoding").headers(FILE_HEADERS), file);
    },
  };
}

function answer(request: FastifyRequest, reply: FastifyReply, file: PageFile | undefined): FastifyReply {
  if (file === undefined) {
    reply.removeHeader("cache-control");
    throw new RequestError(
      `[url] there is no endpoint ${request.method} ${request.url}; GET /openapi.json lists all endpoints`,
      {
        status: 404,
        code: "not_found",
      },
    );
  }
  reply.header("etag", file.etag);
  if (request.headers["if-none-match"]?.includes(file.etag) === true) return reply.code(NOT_MODIFIED_STATUS).send();
  if (file.encoding !== undefined) reply.header("content-encoding", file.encoding);
  return reply.type(file.type).send(file.bytes);
}
