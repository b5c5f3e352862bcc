// What tests import from vitest, for a process in which vitest itself does not run: its own runner and its own matchers.

import {
  addCustomEqualityTesters,
  ASYMMETRIC_MATCHERS_OBJECT,
  customMatchers,
  type ExpectStatic,
  getState,
  GLOBAL_EXPECT,
  JestAsymmetricMatchers,
  JestChaiExpect,
  JestExtend,
  setState,
} from "@vitest/expect";
import * as chai from "chai";
import { setTimeout as pause } from "node:timers/promises";

export { afterAll, afterEach, beforeAll, beforeEach, describe, it, test } from "@vitest/runner";

chai.use(JestExtend);
chai.use(JestChaiExpect);
chai.use(JestAsymmetricMatchers);

const scope = globalThis as unknown as Record<string | symbol, object | undefined>;
/** The same matchers and messages as under vitest. */
export const expect = ((value: unknown, message?: string) => {
  setState({ assertionCalls: getState(expect).assertionCalls + 1 }, expect);
  return chai.expect(value, message) as unknown;
}) as unknown as ExpectStatic;
Object.assign(expect, chai.expect, scope[ASYMMETRIC_MATCHERS_OBJECT]);
expect.getState = () => getState<ReturnType<ExpectStatic["getState"]>>(expect);
expect.setState = (state) => setState(state as Partial<ReturnType<ExpectStatic["getState"]>>, expect);
setState({ assertionCalls: 0, isExpectingAssertions: false, expectedAssertionsNumber: null }, expect);
const chaiExpect = chai.expect as unknown as { extend(expect: ExpectStatic, matchers: object): void };
expect.extend = (matchers) => chaiExpect.extend(expect, matchers);
expect.addEqualityTesters = addCustomEqualityTesters;
expect.extend(customMatchers);
scope[GLOBAL_EXPECT] = expect;

/** What of vitest's helpers the tests use. */
export const vi = {
  /** Calls until it does not throw, or until the time is up. */
  async waitFor<Result>(
    call: () => Result | Promise<Result>,
    { timeout = 1000, interval = 50 }: { readonly timeout?: number; readonly interval?: number } = {},
  ): Promise<Result> {
    const end = performance.now() + timeout;
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (performance.now() > end) throw error;
        await pause(interval);
      }
    }
  },
};
