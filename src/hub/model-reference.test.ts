import { describe, expect, it } from "vitest";
import { modelNameOf, parseModelName } from "./model-reference.js";
import { isModelName } from "./model-scheme.js";

describe("names of models", () => {
  it.each([
    ["hf:user/repo", { kind: "hub", repository: "user/repo", revision: "main" }],
    ["hf:user/repo:Q4_K_M", { kind: "hub", repository: "user/repo", revision: "main", quant: "Q4_K_M" }],
    ["hf:user/repo:Q8_0#dev", { kind: "hub", repository: "user/repo", revision: "dev", quant: "Q8_0" }],
    ["hf:u.s-e_r/re.po#refs/pr/2", { kind: "hub", repository: "u.s-e_r/re.po", revision: "refs/pr/2" }],
    [
      "hf:user/repo/sub/model.gguf#v1",
      { kind: "hub", repository: "user/repo", revision: "v1", file: "sub/model.gguf" },
    ],
    [
      "https://huggingface.co/user/repo/resolve/main/my%20model.gguf?download=true",
      { kind: "hub", repository: "user/repo", revision: "main", file: "my model.gguf" },
    ],
    ["https://hf.co/user/repo", { kind: "hub", repository: "user/repo", revision: "main" }],
    [
      "https://huggingface.co/user/repo/blob/dev/a/b.gguf",
      { kind: "hub", repository: "user/repo", revision: "dev", file: "a/b.gguf" },
    ],
    ["ollama:llama3.2", { kind: "ollama", folders: ["registry.ollama.ai", "library", "llama3.2"], tag: "latest" }],
    ["ollama:me/own:3b", { kind: "ollama", folders: ["registry.ollama.ai", "me", "own"], tag: "3b" }],
    ["ollama:hf.co/user/repo:Q4_K_M", { kind: "ollama", folders: ["hf.co", "user", "repo"], tag: "Q4_K_M" }],
  ])("%s", (name, expected) => {
    expect(isModelName(name)).toBe(true);
    expect(parseModelName(name)).toMatchObject(expected);
  });

  it("takes addresses of other hosts, and of a mirror as the hub's", () => {
    const url = "https://example.com/models/a.gguf?x=1";
    expect(parseModelName(`${url}#part`)).toEqual({ kind: "url", url: new URL(url) });
    expect(parseModelName("https://mirror.example/user/repo/resolve/main/a.gguf", ["mirror.example"])).toMatchObject({
      kind: "hub",
      file: "a.gguf",
    });
  });

  it.each([
    "hf:",
    "hf:user",
    "hf:user/",
    "hf:/repo",
    "hf:user/repo:",
    "hf:user/repo:a:b",
    "hf:user/repo:../x",
    "hf:user/repo#",
    "hf:user/repo#../../x",
    "hf:user/repo#a#b",
    "hf:../repo",
    "hf:user/..",
    "hf:us--er/repo",
    "hf:user/repo/file.bin",
    "hf:user/repo/../../x.gguf",
    "hf:user/repo/a//b.gguf",
    "hf:user/repo/a\\b.gguf",
    "hf:user/repo/nul.gguf",
    "https://example.com/page.html",
    "https://user:secret@example.com/a.gguf",
    "http://example.com/a.gguf",
    "https://",
    "ollama:",
    "ollama:../x",
    "ollama:a/b/c/d",
    "ollama:name:../tag",
    `hf:user/${"x".repeat(2000)}`,
  ])("rejects %s", (name) => {
    expect(() => parseModelName(name)).toThrow(expect.objectContaining({ code: "HUB_NAME" }) as Error);
  });

  it("rejects a password without printing it", () => {
    const parsing = (): unknown => parseModelName("https://user:secret@example.com/a.gguf");
    expect(parsing).toThrow(/example\.com\/a\.gguf.*without a user name or password/);
    expect(parsing).not.toThrow(/secret/);
  });

  it("are written as they are read", () => {
    for (const name of ["hf:user/repo", "hf:user/repo:Q8_0#dev", "hf:user/repo/a/b.gguf", "ollama:me/own:3b"])
      expect(modelNameOf(parseModelName(name))).toBe(name);
  });

  it.each(["model.gguf", "./hf/model.gguf", "C:\\models\\a.gguf", "h:/a.gguf", "/hf:x", ""])("%j is a path", (path) => {
    expect(isModelName(path)).toBe(false);
  });
});
