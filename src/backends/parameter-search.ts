// Finds fast parameters, of a kernel or of a whole backend, by coordinate descent: everything that differs from the present best in one
// parameter is timed against it in turns, the best values of all parameters are joined, and the search goes on from
// there until nothing is clearly faster. Pure: compiling, checking and timing are the bench's.

/** Parameters are faster only if they save this share: less is noise, or not worth a change. */
const LEAST_GAIN = 0.007;
/** After each turn, candidates that are slower than the best by this factor are dropped. */
const DROP_FACTORS = [1.15, 1.05, 1.03, 1.02, 1] as const;
/** Starting points of one search: a bound, because timings are never exact. */
const MAX_ROUNDS = 6;

/** Values of parameters by their names. */
export type SearchParameters = Readonly<Record<string, number>>;

/** What a search needs of the device. */
export interface SearchBench {
  /**
   * Those of the candidates that can be launched and compute the right results, compiled and loaded. Rejects nothing:
   * a candidate that fails in any way is left out.
   */
  usable(candidates: readonly SearchParameters[]): Promise<readonly SearchParameters[]>;
  /** Microseconds of one launch, measured once. */
  time(parameters: SearchParameters): Promise<number>;
  /** Whether the time is up or the search was cancelled. */
  isOver(): boolean;
}

/** Where a search may go. */
export interface SearchSpace {
  /** Parameters to begin with. */
  readonly start: SearchParameters;
  /** What to try from here: everything that differs in one parameter, or what is near. `round`: from 0 on. */
  neighbours(from: SearchParameters, round: number): readonly SearchParameters[];
  isValid(parameters: SearchParameters): boolean;
  /** The share of time that other parameters have to save; absent: what is above the noise of a GPU's clock. */
  readonly leastGain?: number;
}

/** The result of one search. */
export interface SearchOutcome {
  /** The start if nothing was clearly faster. */
  readonly best: SearchParameters;
  /** Microseconds of a launch with the first parameters and with the best, timed in turns; absent if there was no time. */
  readonly startUs?: number;
  readonly bestUs?: number;
  /** Number of candidates that were timed. */
  readonly tried: number;
  /** Number of candidates that could not be launched, or computed something else. */
  readonly rejected: number;
  /** Whether the search ended by itself. */
  readonly isComplete: boolean;
}

/** Searches from `start` until nothing near is faster, or the bench says that the time is up. */
export async function searchParameters(space: SearchSpace, bench: SearchBench): Promise<SearchOutcome> {
  const search = new ParameterSearch(space, bench);
  return await search.run();
}

class ParameterSearch {
  readonly #space: SearchSpace;
  readonly #bench: SearchBench;
  readonly #seen = new Set<string>();
  /** The least time of everything that was timed in full turns, by its key. */
  readonly #times = new Map<string, number>();
  #tried = 0;
  #rejected = 0;

  constructor(space: SearchSpace, bench: SearchBench) {
    this.#space = space;
    this.#bench = bench;
  }

  async run(): Promise<SearchOutcome> {
    const { start } = this.#space;
    let best = start;
    let isComplete = false;
    this.#seen.add(keyOf(start));
    for (let round = 0; round < MAX_ROUNDS && !isComplete && !this.#bench.isOver(); round++) {
      const next = await this.#descend(best, round);
      isComplete = next === undefined && !this.#bench.isOver();
      best = next ?? best;
    }
    return await this.#outcome(best, isComplete);
  }

  /** Better parameters than these; undefined if none near is. */
  async #descend(from: SearchParameters, round: number): Promise<SearchParameters | undefined> {
    const faster = await this.#faster(from, this.#space.neighbours(from, round));
    if (faster.length < 2) return faster.at(0)?.parameters;
    // What is best in each parameter is usually good together, and saves rounds; if not, the best alone is.
    const joined = joinedBest(from, faster);
    const [{ parameters: single }] = faster;
    const [better] = this.#space.isValid(joined) ? await this.#faster(single, [joined]) : [];
    return better?.parameters ?? single;
  }

  /** Which candidates are clearly faster than `from`, the fastest first. */
  async #faster(from: SearchParameters, candidates: readonly SearchParameters[]): Promise<readonly Timed[]> {
    // Two neighbours that were completed in each other's parameter are one candidate.
    const isNew = (parameters: SearchParameters): boolean => this.#seen.size < this.#seen.add(keyOf(parameters)).size;
    const untried = candidates.filter(isNew);
    if (untried.length === 0) return [];
    const usable = await this.#bench.usable(untried);
    if (this.#bench.isOver()) return [];
    this.#tried += usable.length;
    this.#rejected += untried.length - usable.length;
    const { base, timed } = await this.#inTurns(from, usable);
    const { leastGain = LEAST_GAIN } = this.#space;
    return timed
      .filter(({ microseconds }) => microseconds < base * (1 - leastGain))
      .toSorted((left, right) => left.microseconds - right.microseconds);
  }

  /** The least times of several turns; a candidate that is clearly slower is timed no further. */
  async #inTurns(
    from: SearchParameters,
    candidates: readonly SearchParameters[],
  ): Promise<{ readonly base: number; readonly timed: readonly Timed[] }> {
    let base = Number.POSITIVE_INFINITY;
    let left: readonly Timed[] = candidates.map((parameters) => ({
      parameters,
      microseconds: Number.POSITIVE_INFINITY,
    }));
    for (const factor of DROP_FACTORS) {
      if (left.length === 0) break;
      base = Math.min(base, await this.#bench.time(from));
      const timed: Timed[] = [];
      for (const { parameters, microseconds } of left) {
        // Times of a turn that was not finished would favour those that had theirs.
        if (this.#bench.isOver()) return { base, timed: [] };
        timed.push({ parameters, microseconds: Math.min(microseconds, await this.#bench.time(parameters)) });
      }
      left = timed.filter(({ microseconds }) => microseconds <= base * factor);
    }
    for (const { parameters, microseconds } of [{ parameters: from, microseconds: base }, ...left])
      this.#times.set(keyOf(parameters), microseconds);
    return { base, timed: left };
  }

  /** Times the beginning and the end once more if there is time, side by side: what a report says was gained. */
  async #outcome(best: SearchParameters, isComplete: boolean): Promise<SearchOutcome> {
    const { start } = this.#space;
    const counts = { tried: this.#tried, rejected: this.#rejected, isComplete };
    let [startUs, bestUs] = [start, best].map((each) => this.#times.get(keyOf(each)) ?? Number.POSITIVE_INFINITY);
    for (let turn = 0; turn < DROP_FACTORS.length && !this.#bench.isOver(); turn++) {
      startUs = Math.min(startUs, await this.#bench.time(start));
      bestUs = best === start ? startUs : Math.min(bestUs, await this.#bench.time(best));
    }
    if (!Number.isFinite(bestUs) || !Number.isFinite(startUs)) return { best, ...counts };
    if (bestUs > startUs) return { best: start, startUs, bestUs: startUs, ...counts };
    return { best, startUs, bestUs, ...counts };
  }
}

interface Timed {
  readonly parameters: SearchParameters;
  readonly microseconds: number;
}

/** For each parameter the value of the fastest candidate that has another than `from`. */
function joinedBest(from: SearchParameters, fastestFirst: readonly Timed[]): SearchParameters {
  const joined: Record<string, number> = { ...from };
  for (const { parameters } of fastestFirst.toReversed()) {
    for (const [name, value] of Object.entries(parameters)) if (value !== from[name]) joined[name] = value;
  }
  return joined;
}

/** An equal key for equal parameters. */
export function keyOf(parameters: SearchParameters): string {
  return Object.keys(parameters)
    .toSorted()
    .map((name) => `${name}=${parameters[name]}`)
    .join(" ");
}
