import { expect, it } from "vitest";
import { StepTimes } from "./step-times.js";

it("a step takes from its launch to its result, and the device waits between the two", () => {
  const times = new StepTimes();
  expect(times.launched({ launchMs: 5, isQueued: false })).toBe(0);
  expect(times.ended({ launchMs: 5, isQueued: false }, 15)).toBe(10);
  expect(times.launched({ launchMs: 17, isQueued: false })).toBe(2);
  expect(times.ended({ launchMs: 17, isQueued: false }, 29)).toBe(12);
  expect(times).toMatchObject({ steps: 2, stepsMs: 22, betweenStepsMs: 2 });
  times.paused();
  expect(times.launched({ launchMs: 100, isQueued: false })).toBe(0);
});

it("a step that has ended before the host looked counts as the mean of it and the one before", () => {
  const times = new StepTimes();
  const likely = [
    times.ended({ launchMs: 0, isQueued: false }, 10),
    times.ended({ launchMs: 1, isQueued: true }, 20),
    // The host was busy until 49, when the third step and the fourth had both ended.
    times.ended({ launchMs: 11, isQueued: true }, 49),
    times.ended({ launchMs: 21, isQueued: true }, 49.5),
  ];
  expect(likely).toEqual([10, 10, 19.5, 14.75]);
  expect(times.stepsMs).toBe(49.5);
});
