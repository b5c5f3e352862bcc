// The library's functions with invalid arguments: each is refused with one of this package's errors, never a TypeError.

import { describe, expect, it } from "vitest";
import { loadModel, loadTokenizer, RocmForgeError } from "../../../src/index.js";
import { serve } from "../../../src/server/index.js";

const MODEL = new URL("../../fixtures/models/fable-3m-qwen2-Q8_0.gguf", import.meta.url).pathname;

describe("the library's functions", () => {
  it.each<[options: unknown, message: RegExp]>([
    [undefined, /^\[serve\] options: expected an object with `models`, found undefined$/],
    [null, /^\[serve\] options: .*found null$/],
    ["model.gguf", /^\[serve\] options: /],
    [{}, /^\[serve\] models: expected a list such as \[\{ name: "m", path: "model\.gguf" \}\], found undefined$/],
    [{ models: [] }, /^\[serve\] models: .*found an empty one$/],
    [{ models: "model.gguf" }, /^\[serve\] models: .*found model\.gguf$/],
    [{ models: ["model.gguf"] }, /^\[serve\] models\[0\]: expected an object with name and path, found model\.gguf$/],
    [{ models: [{ name: "m" }] }, /^\[serve\] models\[0\]\.path: expected text, found undefined$/],
    [
      { models: [{ name: "m", path: MODEL, file: 1 }] },
      /^\[serve\.models\[0\]\] unknown option "file"; expected one of name, path$/,
    ],
    [
      { models: [{ name: "m", path: MODEL }], model: null },
      /^\[serve\.model\] options: expected an object, found null$/,
    ],
    [
      { models: [{ name: "m", path: MODEL }], model: { contextToken: 1 } },
      /unknown option "contextToken"; did you mean "contextTokens"\?$/,
    ],
    [{ models: [{ name: "m", path: MODEL }], prot: 1 }, /unknown option "prot"; did you mean "port"\?$/],
    [{ models: {} }, /^\[serve\] models: expected at least one model, found none$/],
    [{ models: { m: 5 } }, /^\[serve\] models\.m: expected a path or an open model, found 5$/],
    [{ models: [{ name: "m", path: MODEL }], serving: null }, /expected an object, found null$/],
  ])("serve rejects %j", async (options, message) => {
    const error = await serve(options as never).then(
      () => undefined,
      (refused: unknown) => refused,
    );
    expect(error).toBeInstanceOf(RocmForgeError);
    expect(error).toMatchObject({
      code: expect.stringMatching(/^OPTION_/) as string,
      message: expect.stringMatching(message) as string,
    });
  });

  it.each<[what: string, call: () => Promise<unknown>]>([
    ["loadModel()", () => loadModel(undefined as never)],
    ["loadModel(path, 5)", () => loadModel(MODEL, 5 as never)],
    ["loadModel(path, null)", () => loadModel(MODEL, null as never)],
    ["loadTokenizer()", () => loadTokenizer(undefined as never)],
    ["loadTokenizer(5)", () => loadTokenizer(5 as never)],
  ])("rejects %s", async (_what, call) => {
    await expect(call()).rejects.toMatchObject({ code: "OPTION_VALUE" });
  });
});
