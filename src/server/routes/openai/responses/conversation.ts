// The conversation of a request to /v1/responses: stored items that it refers to, and its own input.

import type { ServerLimits } from "../../../http/limits.js";
import { refuseField, RequestError } from "../../../http/request-error.js";
import type { ResponseBody } from "./request.js";
import { type Item, itemOrReference } from "./items.js";
import { type ResponseStore, withId } from "./store.js";

/** All items for the prompt, each with an id. Throws if a referenced response or item is not stored. */
export function conversationOf(
  body: ResponseBody,
  store: ResponseStore,
  owner: string,
  limits: ServerLimits,
): readonly Item[] {
  const items = [...previousItems(body, store, owner), ...ownItems(body, store, owner)].map(withId);
  if (items.length === 0) refuseField("input", "at least one item", "none");
  if (items.length > limits.messages)
    refuseField(
      "input",
      `at most ${limits.messages} items, those of previous responses included`,
      String(items.length),
    );
  return items;
}

function previousItems(
  { previous_response_id: id }: ResponseBody,
  store: ResponseStore,
  owner: string,
): readonly Item[] {
  if (id === undefined) return [];
  const previous = store.get(owner, id);
  if (previous !== undefined) return [...previous.input, ...previous.output];
  throw new RequestError(
    `[previous_response_id] response ${JSON.stringify(id)} not found: it was not stored, has expired or was deleted; send the whole conversation as input`,
    {
      status: 400,
      code: "previous_response_not_found",
      param: "previous_response_id",
    },
  );
}

function ownItems({ input }: ResponseBody, store: ResponseStore, owner: string): readonly Item[] {
  if (typeof input === "string")
    return [{ type: "message", role: "user", content: [{ type: "input_text", text: input }] }];
  return input.map((given, index) => {
    const item = itemOrReference(given);
    if (!("reference" in item)) return item;
    const stored = store.item(owner, item.reference);
    if (stored !== undefined) return stored;
    throw new RequestError(
      `[input[${index}]] item ${JSON.stringify(item.reference)} not found: items are stored with responses unless store is false, until these expire or are deleted; send the item itself`,
      {
        status: 404,
        code: "item_not_found",
        param: `input[${index}]`,
      },
    );
  });
}
