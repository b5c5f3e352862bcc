// The conversation that a request to /v1/responses continues: what is stored of it, and what the request adds.

import type { ServerLimits } from "../limits.js";
import { refuseField, RequestError } from "../request-error.js";
import type { ResponseBody } from "./form.js";
import { type Item, itemOrReference } from "./items.js";
import { type ResponseStore, withId } from "./store.js";

/** All items that the model is to read, each with an id. Throws where something is referred to that is not stored. */
export function conversationOf(body: ResponseBody, store: ResponseStore, owner: string, limits: ServerLimits): readonly Item[] {
  const items = [...previousItems(body, store, owner), ...ownItems(body, store, owner)].map(withId);
  if (items.length === 0) refuseField("input", "at least one item", "none");
  if (items.length > limits.messages) refuseField("input", `at most ${limits.messages} items, those of previous responses included`, String(items.length));
  return items;
}

function previousItems({ previous_response_id: id }: ResponseBody, store: ResponseStore, owner: string): readonly Item[] {
  if (id === undefined) return [];
  const previous = store.get(owner, id);
  if (previous !== undefined) return [...previous.input, ...previous.output];
  throw new RequestError(`[previous_response_id] no response with the id ${JSON.stringify(id)} is stored: it was never stored, or has been deleted or dropped since; send the whole conversation as input`, {
    status: 400,
    code: "previous_response_not_found",
    param: "previous_response_id",
  });
}

function ownItems({ input }: ResponseBody, store: ResponseStore, owner: string): readonly Item[] {
  if (typeof input === "string") return [{ type: "message", role: "user", content: [{ type: "input_text", text: input }] }];
  return input.map((given, index) => {
    const item = itemOrReference(given);
    if (!("reference" in item)) return item;
    const stored = store.item(owner, item.reference);
    if (stored !== undefined) return stored;
    throw new RequestError(`[input[${index}]] no item with the id ${JSON.stringify(item.reference)} is stored: items are kept with responses that have store true, until these are deleted or dropped; send the item itself`, {
      status: 404,
      code: "item_not_found",
      param: `input[${index}]`,
    });
  });
}
