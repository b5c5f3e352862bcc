import { expect, it } from "vitest";
import { RegistrationQueue } from "./registered-pages.js";

it("lets two registrations run at a time, in order, and goes on after one that fails", async () => {
  const queue = new RegistrationQueue();
  const begun: number[] = [];
  const ends: ((error?: Error) => void)[] = [];
  const registrations = [0, 1, 2, 3].map((number) =>
    queue.run(() => {
      begun.push(number);
      return new Promise((resolve, reject) => {
        ends[number] = (error) => (error === undefined ? resolve() : reject(error));
      });
    }),
  );
  const refused = registrations[1].catch((error: Error) => error.message);
  expect(begun).toEqual([0, 1]);
  ends[1](new Error("refused"));
  expect(await refused).toBe("refused");
  expect(begun).toEqual([0, 1, 2]);
  ends[0]();
  await registrations[0];
  expect(begun).toEqual([0, 1, 2, 3]);
  for (const number of [2, 3]) ends[number]();
  await Promise.all([registrations[2], registrations[3]]);
});
