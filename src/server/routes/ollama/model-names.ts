// Names of models as Ollama writes them: a name without a tag has the tag `latest`.

import { LATEST } from "../../completion/route-context.js";

/** A name with its tag: `org/name` is `org/name:latest`. */
export function taggedName(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1).includes(":") ? name : `${name}${LATEST}`;
}

/** The name that a response shows: the requested one if it names the served model, else the served one. */
export function shownName(served: string, requested: string): string {
  return taggedName(requested) === taggedName(served) ? requested : taggedName(served);
}
