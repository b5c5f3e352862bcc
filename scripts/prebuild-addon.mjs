// `npm run addon:prebuild`: puts this machine's build of the addon where a published package carries it,
// prebuilds/PLATFORM-ARCHITECTURE/, with the hash of the sources it was made of. Packages of several platforms are
// collected by copying these folders together before `npm pack`.

import { copyFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { buildAddon, BUILT_ADDON, PREBUILT_ADDON, STAMP_NAME } from "./addon.mjs";
import { ensureInstalled } from "./bootstrap.mjs";
import { main, say, ScriptError, step } from "./tool.mjs";

await main(async () => {
  await ensureInstalled();
  const { failure } = await step("building the native addon (native/cpu)", () => buildAddon({ anew: true }));
  if (failure !== undefined) throw new ScriptError(`${failure.reason}; ${failure.remedy}`, { tail: failure.tail });
  mkdirSync(dirname(PREBUILT_ADDON), { recursive: true });
  copyFileSync(BUILT_ADDON, PREBUILT_ADDON);
  copyFileSync(join(dirname(BUILT_ADDON), STAMP_NAME), join(dirname(PREBUILT_ADDON), STAMP_NAME));
  say(`wrote ${PREBUILT_ADDON}`);
});
