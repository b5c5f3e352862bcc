import { describe, expect, it } from "vitest";
import { modelList } from "./model-list.js";

const listed = (...values: readonly string[]): readonly (readonly string[])[] =>
  modelList("serve", values, "/opt/embedded.gguf").map(({ name, path }) => [name, path]);

describe("the models of a server", () => {
  it.each([
    ["models/Llama-3.2-1B.Q4_K_M.gguf", "Llama-3.2-1B.Q4_K_M"],
    ["models/big-00001-of-00003.gguf", "big"],
    ["strange.GGUF", "strange"],
    ["./a=b.gguf", "a=b"],
    ["/x/a=b.gguf", "a=b"],
  ])("calls %s after its file", (path, name) => {
    expect(listed(path)).toEqual([[name, path]]);
  });

  it("takes other names", () => {
    expect(listed("small=a.gguf", "org/big:8b=/b/c=d.gguf")).toEqual([
      ["small", "a.gguf"],
      ["org/big:8b", "/b/c=d.gguf"],
    ]);
  });

  it("has the embedded one if none is given", () => {
    expect(listed()).toEqual([["embedded", "/opt/embedded.gguf"]]);
  });

  it("rejects two of one name, and none", () => {
    expect(() => listed("a/model.gguf", "b/model.gguf")).toThrow(
      /another name for each model.*"model" for a\/model\.gguf and for b\/model\.gguf/,
    );
    expect(() => listed("")).toThrow(/expected FILE or NAME=FILE/);
    expect(() => listed(".gguf")).toThrow(/expected FILE or NAME=FILE/);
  });
});
