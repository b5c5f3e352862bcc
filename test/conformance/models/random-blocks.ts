// Random blocks of every type, as `rocmforge verify` makes them.

export { anyBlocks, randomTensor } from "../../../src/verify/random-blocks.js";
