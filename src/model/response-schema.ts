// The schema of a reply: a JSON Schema, or an object with the Standard Schema interface (Zod 4, Valibot, ArkType). The grammar
// follows its JSON Schema; what the schema's own validation adds (refinements, transforms) is applied to the reply.

import { ChatError } from "../errors.js";
import { isPlainObject } from "../plain-object.js";

/** A JSON Schema of draft 4 to 2020-12, as plain data. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** The part of the Standard Schema interface (version 1) that replies need; Zod 4, Valibot and ArkType implement it. */
export interface StandardSchema<Value> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Value> | Promise<StandardResult<Value>>;
    readonly types?: { readonly input: unknown; readonly output: Value } | undefined;
  };
}

/** The result of a Standard Schema's validation: the value, or what is wrong with it. */
export type StandardResult<Value> =
  | { readonly value: Value; readonly issues?: undefined }
  | {
      readonly issues: readonly {
        readonly message: string;
        readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
      }[];
    };

/** A JSON Schema, or any schema with the Standard Schema interface that can be converted to one. */
export type ReplySchema<Value> = StandardSchema<Value> | JsonSchema;

const TARGET = { target: "draft-2020-12" } as const;

function isStandard<Value>(schema: ReplySchema<Value>): schema is StandardSchema<Value> {
  // ArkType's schemas are functions.
  return isPlainObject((schema as { readonly "~standard"?: unknown })["~standard"]);
}

/** The JSON Schema of what the model has to write, which is the input of the schema's transforms. */
export function jsonSchemaOf(schema: ReplySchema<unknown>, place: string): JsonSchema {
  if (!isStandard(schema)) {
    if (isPlainObject(schema)) return schema;
    throw new ChatError(
      "CHAT_SCHEMA",
      `[${place}] expected a JSON Schema or a Standard Schema, found ${typeof schema}`,
    );
  }
  const { vendor } = schema["~standard"];
  try {
    const converted = converterOf(schema)?.();
    if (isPlainObject(converted)) return converted;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ChatError("CHAT_SCHEMA", `[${place}] ${vendor} cannot turn the schema into a JSON Schema: ${reason}`, {
      cause: error,
    });
  }
  throw new ChatError(
    "CHAT_SCHEMA",
    `[${place}] this schema of ${vendor} has no conversion to JSON Schema; pass a JSON Schema, or a schema of Zod 4.2 or later`,
  );
}

/** The Standard JSON Schema interface, or a method of the schema's own. */
function converterOf(schema: object): (() => unknown) | undefined {
  const methods = schema as {
    readonly "~standard": { readonly jsonSchema?: { readonly input?: (options: object) => unknown } };
    readonly toJSONSchema?: (options: object) => unknown;
    readonly toJsonSchema?: () => unknown;
  };
  const { jsonSchema } = methods["~standard"];
  if (typeof jsonSchema?.input === "function") return () => jsonSchema.input?.(TARGET);
  if (typeof methods.toJSONSchema === "function") return () => methods.toJSONSchema?.({ ...TARGET, io: "input" });
  if (typeof methods.toJsonSchema === "function") return () => methods.toJsonSchema?.();
  return undefined;
}

/** Parses a complete reply; rejects if the schema's own validation fails. */
export async function parseReply<Value>(schema: ReplySchema<Value>, text: string): Promise<Value> {
  const value: unknown = JSON.parse(text);
  if (!isStandard(schema)) return value as Value;
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return result.value;
  const [first] = result.issues;
  const path = first?.path?.map((step) => String(typeof step === "object" ? step.key : step)).join(".") ?? "";
  throw new ChatError(
    "CHAT_SCHEMA",
    `[schema] the reply does not satisfy the schema${path === "" ? "" : ` at ${path}`}: ${first?.message ?? "no reason given"}`,
    { details: { issues: result.issues, text } },
  );
}
