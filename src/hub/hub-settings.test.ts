import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readHubSettings } from "./hub-settings.js";

const HOME = join(tmpdir(), "no-such-home");
const read = (environment: NodeJS.ProcessEnv) => readHubSettings(false, environment, HOME);

it("finds the cache as Hugging Face's tools do", () => {
  const all = {
    HF_HUB_CACHE: "/one",
    HUGGINGFACE_HUB_CACHE: "/two",
    HF_HOME: "/three",
    XDG_CACHE_HOME: "/four",
  };
  const { HF_HUB_CACHE: _one, ...two } = all;
  const { HUGGINGFACE_HUB_CACHE: _two, ...three } = two;
  const { HF_HOME: _three, ...four } = three;
  expect([all, two, three, four, {}].map((environment) => read(environment).cacheFolder)).toEqual([
    "/one",
    "/two",
    "/three/hub",
    "/four/huggingface/hub",
    join(HOME, ".cache/huggingface/hub"),
  ]);
  expect(read({ ...all, HF_HUB_CACHE: "" }).cacheFolder).toBe("/two");
  expect(read({ XDG_CACHE_HOME: "relative" }).cacheFolder).toBe(join(HOME, ".cache/huggingface/hub"));
  expect(read({ HF_HOME: "~/hf" }).cacheFolder).toBe(join(HOME, "hf/hub"));
});

it("takes the token from the environment, else from its file", () => {
  const folder = mkdtempSync(join(tmpdir(), "rocmforge-test-"));
  try {
    mkdirSync(join(folder, "hf"));
    writeFileSync(join(folder, "hf", "token"), "hf_file\n");
    const environment = { HF_HOME: join(folder, "hf") };
    expect(read(environment).token).toBe("hf_file");
    expect(read({ ...environment, HF_TOKEN: " hf_own " }).token).toBe("hf_own");
    expect(read({}).token).toBeUndefined();
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it("rejects a token that could add headers, without printing it", () => {
  expect(() => read({ HF_TOKEN: "hf_a\r\nX-Other: b" })).toThrow(/HF_TOKEN: expected/);
  expect(() => read({ HF_TOKEN: "hf_a b" })).not.toThrow(/hf_a/);
});

it("takes a mirror, and rejects what is none", () => {
  expect(read({}).endpoint).toBe("https://huggingface.co");
  expect(read({ HF_ENDPOINT: "https://mirror.example/hub/" }).endpoint).toBe("https://mirror.example/hub");
  for (const HF_ENDPOINT of ["mirror.example", "file:///etc", "https://a:b@mirror.example"])
    expect(() => read({ HF_ENDPOINT })).toThrow(/HF_ENDPOINT/);
});

it.each(["https://bob:hf_SECRET@mirror.example", "https://mirror.example?key=hf_SECRET"])(
  "does not print the secret of %s",
  (HF_ENDPOINT) => {
    expect(() => read({ HF_ENDPOINT })).toThrow(/^(?!.*SECRET).*HF_ENDPOINT/s);
  },
);

it("is offline if a variable or a caller says so", () => {
  for (const HF_HUB_OFFLINE of ["1", "true", "YES", "on"]) expect(read({ HF_HUB_OFFLINE }).offline).toBe(true);
  for (const HF_HUB_OFFLINE of ["0", "false", ""]) expect(read({ HF_HUB_OFFLINE }).offline).toBe(false);
  expect(readHubSettings(true, { HF_HUB_OFFLINE: "0" }).offline).toBe(true);
});
