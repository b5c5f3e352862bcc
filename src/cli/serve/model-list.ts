// The models of a server and their names in requests: FILE is named after the file, NAME=FILE as given.

import { modelName } from "../../model/model-name.js";
import { expandHome } from "../home-path.js";
import { wrongValue } from "../option-table.js";

/** A model with the name that requests use. */
interface NamedModel {
  readonly name: string;
  readonly path: string;
}

/** What may come before a `=`; anything else is part of a path. */
const NAMED = /^(?<name>[A-Za-z0-9][\w.:/@+-]{0,127})=(?<path>.+)$/s;

/** The models that the values of -m name. */
export function modelList(command: string, values: readonly string[], fallback: string): readonly NamedModel[] {
  const models = (values.length === 0 ? [fallback] : values).map((value) => namedModel(command, value));
  for (const [index, { name, path }] of models.entries()) {
    const first = models.findIndex((other) => other.name === name);
    if (first !== index)
      throw wrongValue(
        command,
        "model",
        "another name for each model, as in NAME=FILE",
        `"${name}" for ${models[first].path} and for ${path}`,
      );
  }
  return models;
}

function namedModel(command: string, value: string): NamedModel {
  const { name, path } = NAMED.exec(value)?.groups ?? {};
  if (name !== undefined && path !== undefined) return { name, path: expandHome(path) };
  const ownName = modelName(value);
  if (ownName === "") throw wrongValue(command, "model", "FILE or NAME=FILE", `"${value}"`);
  return { name: ownName, path: expandHome(value) };
}
