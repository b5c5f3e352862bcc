// The place of a waiting answer in the queue of its model's engine. The engine is watched only while this is shown, and
// tells how many requests wait: one that has just come is the last of them, and later ones come after it.

import { useRef } from "preact/hooks";
import { watchEngine } from "../api/engine";
import { useWatch } from "../views/use-watch";

/** Says nothing if the request does not wait in the queue, or if the engine cannot be watched. */
export function QueuePlace({ model }: { readonly model: string }) {
  const place = useRef(Number.POSITIVE_INFINITY);
  const { value: snapshot } = useWatch(watchEngine, "waiting");
  const queued = snapshot?.models.find(({ id }) => id === model)?.engine?.queued;
  if (queued === undefined) return null;
  place.current = Math.min(place.current, queued);
  return place.current === 0 ? null : <>Place {place.current} in the queue</>;
}
