// Every JSON text of up to so many bytes over an alphabet, with a blank where the documents allow one.

export function shortJson(alphabet: readonly string[], maxBytes: number): readonly string[] {
  const values: string[][] = [[]];
  const has = new Set(alphabet);
  for (let bytes = 1; bytes <= maxBytes; bytes++) {
    values.push([...scalars(alphabet, bytes), ...lists(values, has, bytes), ...objects(values, has, bytes)]);
  }
  return values.flat();
}

function scalars(alphabet: readonly string[], bytes: number): readonly string[] {
  const digits = alphabet.filter((character) => /\d/.test(character));
  const words = ["true", "null", "false"].filter(
    (word) => word.length === bytes && [...word].every((character) => alphabet.includes(character)),
  );
  const numbers = texts(
    ["-", ".", ...digits].filter((character) => alphabet.includes(character)),
    bytes,
  ).filter((text) => /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/.test(text));
  const inside = alphabet.filter((character) => character !== '"' && character !== "\\" && character >= " ");
  const strings = bytes >= 2 && alphabet.includes('"') ? texts(inside, bytes - 2).map((text) => `"${text}"`) : [];
  return [...words, ...numbers, ...strings];
}

function texts(letters: readonly string[], length: number): readonly string[] {
  let found = [""];
  for (let count = 0; count < length; count++) found = found.flatMap((text) => letters.map((letter) => text + letter));
  return found;
}

function lists(values: readonly (readonly string[])[], has: ReadonlySet<string>, bytes: number): readonly string[] {
  if (!has.has("[") || !has.has("]")) return [];
  return inner(bytes - 2, (left) => items(values, has, left)).map((text) => `[${text}]`);
}

/** With one property at most: two need more bytes than anybody would wait for. */
function objects(values: readonly (readonly string[])[], has: ReadonlySet<string>, bytes: number): readonly string[] {
  if (!has.has("{") || !has.has("}")) return [];
  return inner(bytes - 2, (left) => pairs(values, has, left)).map((text) => `{${text}}`);
}

/** Nothing, a blank, or something with a blank before it, behind it or both. */
function inner(bytes: number, make: (bytes: number) => readonly string[]): readonly string[] {
  if (bytes < 0) return [];
  if (bytes === 0) return [""];
  return [
    ...(bytes === 1 ? [" "] : []),
    ...make(bytes),
    ...make(bytes - 1).flatMap((text) => [` ${text}`, `${text} `]),
    ...make(bytes - 2).map((text) => ` ${text} `),
  ];
}

function items(values: readonly (readonly string[])[], has: ReadonlySet<string>, bytes: number): readonly string[] {
  if (bytes <= 0) return [];
  const found = [...(values[bytes] ?? [])];
  if (!has.has(",")) return found;
  for (let first = 1; first < bytes - 1; first++) {
    for (const gap of [",", ", "]) {
      const rest = items(values, has, bytes - first - gap.length);
      for (const one of values[first] ?? []) for (const more of rest) found.push(`${one}${gap}${more}`);
    }
  }
  return found;
}

function pairs(values: readonly (readonly string[])[], has: ReadonlySet<string>, bytes: number): readonly string[] {
  if (!has.has(":") || bytes < 4) return [];
  const found: string[] = [];
  for (let name = 2; name < bytes - 1; name++) {
    for (const gap of [":", ": "]) {
      for (const key of (values[name] ?? []).filter((text) => text.startsWith('"')))
        for (const value of values[bytes - name - gap.length] ?? []) found.push(`${key}${gap}${value}`);
    }
  }
  return found;
}
