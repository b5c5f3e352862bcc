// The random numbers of one sequence: xoshiro128** (Blackman and Vigna), seeded by splitmix32. The same seed gives the
// same numbers on every machine; they are not cryptographically secure.

/** Seeds are non-negative safe integers; a seed that is chosen at random is below this, short enough to retype. */
const DRAWN_SEEDS = 2 ** 32;

/** A seeded random number generator. */
export class RandomSource {
  readonly seed: number;
  readonly #state: Uint32Array = new Uint32Array(4);
  /** Numbers that were looked at and not yet taken. */
  readonly #peeked: number[] = [];

  constructor(seed: number = Math.floor(Math.random() * DRAWN_SEEDS)) {
    this.seed = seed;
    let low = seed >>> 0;
    let high = Math.floor(seed / 2 ** 32) >>> 0;
    for (let index = 0; index < 4; index++) {
      low = (low + 0x9e3779b9) >>> 0;
      high = (high + 0x85ebca6b) >>> 0;
      this.#state[index] = scramble(low) ^ Math.imul(scramble(high), 0x9e3779b1);
    }
    // All zeros is the one state that the generator never leaves.
    if (this.#state.every((word) => word === 0)) this.#state[0] = 1;
  }

  /** A number in [0, 1) with 53 random bits. */
  next(): number {
    return this.#peeked.shift() ?? this.#draw();
  }

  /** What `next` will return after `distance` further calls. */
  peek(distance: number): number {
    while (this.#peeked.length <= distance) this.#peeked.push(this.#draw());
    return this.#peeked[distance];
  }

  #draw(): number {
    const upper = this.#word() >>> 5;
    const lower = this.#word() >>> 6;
    return (upper * 2 ** 26 + lower) / 2 ** 53;
  }

  #word(): number {
    const state = this.#state;
    const result = Math.imul(rotate(Math.imul(state[1], 5), 7), 9) >>> 0;
    const shifted = state[1] << 9;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate(state[3], 11);
    return result;
  }
}

function rotate(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits));
}

/** The finaliser of splitmix32. */
function scramble(word: number): number {
  let mixed = word ^ (word >>> 16);
  mixed = Math.imul(mixed, 0x21f0aaad);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x735a2d97);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}
