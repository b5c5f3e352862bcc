// npm's `install` script, and `npm run addon` (with --anew): builds the native addon if necessary. An install never
// fails without it: everything but the `cpu` backend works, and that backend explains why it does not.

import { buildAddon, findAddon, hasAddonSources } from "./addon.mjs";
import { main, say, ScriptError, step } from "./tool.mjs";

await main(async (args) => {
  const anew = args.includes("--anew");
  // Our own scripts install packages first and build afterwards, as a visible step.
  if (!anew && process.env["ROCMFORGE_ADDON"] === "later") return 0;
  if (!hasAddonSources()) {
    if (anew) throw new ScriptError("this package has no sources of the native addon (native/cpu)");
    return 0;
  }
  if (!anew && (await findAddon()) !== undefined) return 0;
  const { addon, failure } = await step("building the native addon (native/cpu)", () => buildAddon({ anew }));
  if (addon !== undefined) return 0;
  if (anew)
    throw new ScriptError(`the native addon could not be built: ${failure.reason}; ${failure.remedy}`, {
      tail: failure.tail,
    });
  say(
    `warning: the native addon could not be built, so the backend cpu is not available: ${failure.reason}; ${failure.remedy}`,
  );
  return 0;
});
