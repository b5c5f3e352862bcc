// The models of a server and their names in requests: FILE is named after the file, NAME=FILE as given.

import { isModelName } from "../../hub/model-scheme.js";
import { modelName } from "../../hub/model-name.js";
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
  const models = (values.length === 0 ? [fallback] : values).map((value) => servedModel(command, value));
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

/** Splits NAME=MODEL; a value without a name is a path, or a model's name, which may contain a `=` of its own. */
export function splitModelValue(value: string): { readonly name: string | undefined; readonly model: string } {
  const { name, path } = isModelName(value) ? {} : (NAMED.exec(value)?.groups ?? {});
  return path === undefined ? { name: undefined, model: value } : { name, model: path };
}

function servedModel(command: string, value: string): NamedModel {
  const { name, model } = splitModelValue(value);
  if (name !== undefined) return { name, path: expandHome(model) };
  const ownName = modelName(value);
  if (ownName === "") throw wrongValue(command, "model", "FILE or NAME=FILE", `"${value}"`);
  return { name: ownName, path: expandHome(value) };
}
