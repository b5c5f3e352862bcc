import { writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../test/support/temporary-folder.js";
import { readApiKeys } from "./api-keys.js";

describe("API keys", () => {
  it("come from the environment and from a file", async () => {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file("keys"), "# ours\nkey-one-1\r\n\n  key-two-2  \n");
    const environment = { ROCMFORGE_API_KEYS: "key-zero, key-one-1" };
    expect(await readApiKeys("serve", undefined, {})).toEqual([]);
    expect(await readApiKeys("serve", folder.file("keys"), environment)).toEqual([
      "key-zero",
      "key-one-1",
      "key-two-2",
    ]);
  });

  it.each(["", " ", " ,, "])("are required if the environment variable is set: %j", async (text) => {
    await expect(readApiKeys("serve", undefined, { ROCMFORGE_API_KEYS: text })).rejects.toMatchObject({
      code: "OPTION_VALUE",
      message: expect.stringMatching(/^\[serve\] ROCMFORGE_API_KEYS: expected keys .*, found none$/),
    });
  });

  it("are required if a file is given", async () => {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file("keys"), "# none\n");
    await expect(readApiKeys("serve", folder.file("keys"), { ROCMFORGE_API_KEYS: "key-zero" })).rejects.toThrow(
      /a file with one key per line/,
    );
    await expect(readApiKeys("serve", folder.file("none"), {})).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
  });
});
