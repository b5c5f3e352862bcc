import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import type { ModelListing } from "../../engine/serving.js";
import { greetingText } from "./greeting.js";

const MODELS: readonly ModelListing[] = [
  { name: "it's", path: "/m/its.gguf", state: "loaded", contextTokens: 4096, created: 0 },
  { name: "other", path: "/m/other.gguf", state: "unloaded", contextTokens: undefined, created: 0 },
];

describe("the greeting", () => {
  it("prints the address and the loaded models", () => {
    const text = greetingText({ url: "http://127.0.0.1:8080", models: MODELS, needsKey: false, hasPage: true });
    expect(text).toMatch(/^rocmforge is listening on http:\/\/127\.0\.0\.1:8080\n/);
    expect(text).toMatch(/^chat in a browser: http:\/\/127\.0\.0\.1:8080\/$/m);
    expect(text).toMatch(/^ {2}it's {3}loaded, context 4,096 tokens +\/m\/its\.gguf$/m);
    expect(text).toMatch(/^ {2}other {2}loaded on first request +\/m\/other\.gguf$/m);
  });

  it("prints the address for clients of Ollama on a line of its own", () => {
    const addresses = { url: "http://127.0.0.1:8080", ollamaUrl: "http://127.0.0.1:11434" };
    const [first, second] = greetingText({ ...addresses, models: MODELS, needsKey: false, hasPage: true }).split("\n");
    expect([first, second]).toEqual([
      "rocmforge is listening on http://127.0.0.1:8080",
      "and on http://127.0.0.1:11434 for clients of Ollama",
    ]);
  });

  it("shows a request that a shell understands", () => {
    const text = greetingText({ url: "http://[::]:80", models: MODELS, needsKey: true, hasPage: false });
    const command = /^ {2}curl (?<words>[^]*?)\n\n/m.exec(text)?.groups?.["words"] ?? "";
    const words = execFileSync("/bin/sh", ["-c", String.raw`printf '%s\n' ${command}`], { encoding: "utf8" }).split(
      "\n",
    );
    expect(text).not.toContain("browser");
    expect(words[0]).toBe("http://[::1]:80/v1/chat/completions");
    expect(words).toContain("Authorization: Bearer KEY");
    expect(JSON.parse(words[6])).toMatchObject({ model: "it's", messages: [{ role: "user" }] });
  });
});
