// Seeded random numbers for tests, as `rocmforge verify` draws them.

export { Dice, drawFloats } from "../../src/verify/dice.js";
