import { expect, it } from "vitest";
import { readSettings } from "./settings.js";

it("shows values only of variables that hold no secrets, and none of other programs", () => {
  const environment = {
    ROCMFORGE_CPU_ISA: "avx2",
    ROCMFORGE_API_KEYS: "secret",
    ROCMFORGE_UNKNOWN: "secret",
    HF_TOKEN: "secret",
    HF_HUB_CACHE: "/models",
    HF_TOKEN_PATH: "/secret",
    https_proxy: "http://user:secret@host",
    HIP_VISIBLE_DEVICES: "1",
    AWS_SECRET_ACCESS_KEY: "secret",
    PATH: "/bin",
    ROCMFORGE_GPU_BLAS: "",
  };
  const settings = readSettings(environment);
  expect(JSON.stringify(settings)).not.toContain("secret");
  expect(settings).toEqual([
    { name: "HF_HUB_CACHE", value: "/models" },
    { name: "HF_TOKEN" },
    { name: "HF_TOKEN_PATH" },
    { name: "HIP_VISIBLE_DEVICES", value: "1" },
    { name: "ROCMFORGE_API_KEYS" },
    { name: "ROCMFORGE_CPU_ISA", value: "avx2" },
    { name: "ROCMFORGE_UNKNOWN" },
    { name: "https_proxy" },
  ]);
});
