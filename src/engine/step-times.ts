// How long steps take, and how long the device waits between two of them.

/** The launch of one step. */
export interface StepLaunch {
  readonly launchMs: number;
  /** Whether it was queued behind another one, and begins when that one ends. */
  readonly isQueued: boolean;
}

/** The times of one engine's steps, one after the other. */
export class StepTimes {
  steps = 0;
  stepsMs = 0;
  betweenStepsMs = 0;
  #lastMs = 0;
  /** When the last step ended; undefined after a pause. */
  #resultMs: number | undefined;

  /** Records the launch of a step that was not queued; returns how long the device waited for it. */
  launched({ launchMs }: StepLaunch): number {
    const betweenMs = this.#resultMs === undefined ? 0 : launchMs - this.#resultMs;
    this.betweenStepsMs += betweenMs;
    return betweenMs;
  }

  /**
   * Records the end of a step; returns what it is likely to have taken. Results that the host takes late make a step seem
   * longer and the one queued behind it shorter, so that a queued step counts as the mean of both.
   */
  ended({ launchMs, isQueued }: StepLaunch, resultMs: number): number {
    const milliseconds = resultMs - Math.max(launchMs, this.#resultMs ?? launchMs);
    const likelyMs = isQueued ? (this.#lastMs + milliseconds) / 2 : milliseconds;
    this.#resultMs = resultMs;
    this.#lastMs = milliseconds;
    this.steps++;
    this.stepsMs += milliseconds;
    return likelyMs;
  }

  /** Nothing is computed for a while. */
  paused(): void {
    this.#resultMs = undefined;
  }
}
