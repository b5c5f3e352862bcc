import { describe, expect, it } from "vitest";
import { openPage, pageOpener } from "./open-page.js";

describe("pageOpener", () => {
  it.each<[platform: NodeJS.Platform, environment: NodeJS.ProcessEnv, program: string | undefined]>([
    ["linux", { DISPLAY: ":0" }, "xdg-open"],
    ["linux", { WAYLAND_DISPLAY: "wayland-0" }, "xdg-open"],
    ["linux", { DISPLAY: "" }, undefined],
    ["linux", {}, undefined],
    ["darwin", {}, "open"],
    ["darwin", { SSH_CONNECTION: "10.0.0.1 50000 10.0.0.2 22" }, undefined],
    ["win32", {}, "rundll32"],
  ])("on %s with %j is %s", (platform, environment, program) => {
    expect(pageOpener(platform, environment)?.[0]).toBe(program);
  });
});

describe("openPage", () => {
  it("says whether the program ended well", async () => {
    expect(await openPage("http://127.0.0.1/", [process.execPath, "-e", "0"])).toBe(true);
    expect(await openPage("http://127.0.0.1/", [process.execPath, "-e", "process.exit(4)"])).toBe(false);
  });

  it("fails without a program", async () => {
    expect(await openPage("http://127.0.0.1/", ["/no/such/program"])).toBe(false);
  });
});
