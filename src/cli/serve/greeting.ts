// The text that `serve` prints once it listens: the address, the models, and a request to try.

import type { ModelListing } from "../../engine/serving.js";
import { countOf, formatTable, printable } from "../format.js";
import { singleQuoted } from "../shell-quotes.js";

/** What the greeting mentions. */
interface Greeting {
  /** The URL as bound: `http://0.0.0.0:8080`. */
  readonly url: string;
  /** The address for clients of Ollama, if there is another one. */
  readonly ollamaUrl?: string | undefined;
  readonly models: readonly ModelListing[];
  readonly needsKey: boolean;
  readonly hasPage: boolean;
}

/** The greeting of a server that listens. */
export function greetingText({ url, ollamaUrl, models, needsKey, hasPage }: Greeting): string {
  const rows = models.map(({ name, path, state, contextTokens }) => [
    printable(name),
    stateText(state, contextTokens),
    printable(path),
  ]);
  const name = models[0]?.name ?? "";
  return [
    `rocmforge is listening on ${url}`,
    ...(ollamaUrl === undefined ? [] : [`and on ${ollamaUrl} for clients of Ollama`]),
    formatTable(rows),
    "",
    ...(hasPage ? [`chat in a browser: ${reachable(url)}/`, ""] : []),
    hasPage ? "or from a shell:" : "try it:",
    `  curl ${reachable(url)}/v1/chat/completions ${needsKey ? '-H "Authorization: Bearer KEY" ' : ""}-H "Content-Type: application/json" \\`,
    `    -d ${singleQuoted(JSON.stringify({ model: name, messages: [{ role: "user", content: "Hello!" }], max_tokens: 100 }))}`,
    "",
    "Ctrl-C stops it once the in-flight requests are finished, Ctrl-C again at once.",
    "",
  ].join("\n");
}

function stateText(state: ModelListing["state"], contextTokens: number | undefined): string {
  if (state !== "loaded") return "loaded on first request";
  return contextTokens === undefined ? "loaded" : `loaded, context ${countOf(contextTokens, "token")}`;
}

/** Replaces an address that means all interfaces by one that requests can be sent to. */
function reachable(url: string): string {
  return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
}
