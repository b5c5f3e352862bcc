// `npm run build` and npm's prepack: rebuilds dist/, after installing the packages that it needs.

import { build, ensureInstalled } from "./bootstrap.mjs";
import { main } from "./tool.mjs";

await main(async () => {
  await ensureInstalled();
  await build();
});
