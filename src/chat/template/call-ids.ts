// Ids of calls in the form that a model's templates demand. Clients send back ids of any form, also those of other
// providers; a call and its result keep the same one.

import { createHash } from "node:crypto";
import { type CallConvention, conventionOf } from "../output/conventions.js";
import type { ChatMessage } from "../message.js";
import { ID_PREFIX } from "../output/sectioned-calls.js";

const SHORT_ID = /^[A-Za-z0-9]{9}$/;
const NUMBERED_ID = /^functions\.[\w.:-]+:\d+$/;

/** The id that a template is given for a client's id. */
export function callIds(convention: CallConvention, messages: readonly ChatMessage[]): (id: string) => string {
  switch (conventionOf(convention).ids) {
    case undefined:
      return (id) => id;
    case "nine characters":
      return (id) => (SHORT_ID.test(id) ? id : createHash("sha256").update(id).digest("hex").slice(0, 9));
    case "numbered": {
      const ids = new Map<string, string>();
      for (const [index, { id, name }] of messages.flatMap(({ toolCalls = [] }) => toolCalls).entries())
        if (!ids.has(id)) ids.set(id, NUMBERED_ID.test(id) ? id : `${ID_PREFIX}${name}:${index}`);
      return (id) => ids.get(id) ?? id;
    }
    default:
      return (id) => id;
  }
}
