// JSON-Schema-Test-Suite, read from the npm packages that carry it, if they are there: @json-schema-org/tests (its files lie
// in a package of their own beside it) or an older json-schema-test-suite, which has draft 4 at most.

import { existsSync, readdirSync, readFileSync } from "node:fs";

export interface SuiteInstance {
  readonly description: string;
  readonly data: unknown;
  readonly valid: boolean;
}

export interface SuiteCase {
  /** File and description. */
  readonly title: string;
  readonly schema: unknown;
  readonly tests: readonly SuiteInstance[];
}

const ROOTS = [new URL("../../../", import.meta.url), new URL("./", import.meta.url)];
const PLACES = [
  "node_modules/@json-schema-org/tests/node_modules/json-schema-test-suite/",
  "node_modules/json-schema-test-suite/",
  "node_modules/@json-schema-org/tests/",
];

/** The required cases of a draft, or undefined where no installed package has them. */
export function suiteCases(draft: "draft2020-12" | "draft4"): readonly SuiteCase[] | undefined {
  const folder = ROOTS.flatMap((root) => PLACES.map((place) => new URL(`${place}tests/${draft}/`, root))).find(
    (place) => existsSync(place),
  );
  if (folder === undefined) return undefined;
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .sort()
    .flatMap((name) => {
      const cases = JSON.parse(readFileSync(new URL(name, folder), "utf8")) as readonly (Omit<SuiteCase, "title"> & {
        readonly description: string;
      })[];
      return cases.map(({ description, schema, tests }) => ({
        title: `${name.slice(0, -".json".length)}: ${description}`,
        schema,
        tests,
      }));
    });
}
