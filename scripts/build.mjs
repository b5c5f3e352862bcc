// `npm run build` and npm's prepack: writes dist/ anew, installing what that takes first.

import { build, ensureInstalled } from "./bootstrap.mjs";
import { main } from "./tool.mjs";

await main(async () => {
  await ensureInstalled();
  await build();
});
