// Models that are loaded at first use: once, again after a failure or a lost device, and disposed with the provider.

import { describe, expect, it } from "vitest";
import type { Model } from "../model/model.js";
import { LazyModel, providedModel } from "./provided-model.js";

/** The part of a model that the provider uses. */
class FakeModel {
  isLost = false;
  disposals = 0;

  async dispose(): Promise<void> {
    this.disposals++;
  }
}

/** A model whose loads the test settles. */
function lazyModel() {
  const loads: PromiseWithResolvers<Model>[] = [];
  const lazy = new LazyModel(() => {
    const load = withResolvers<Model>();
    loads.push(load);
    return load.promise;
  });
  const settle = async (number: number): Promise<FakeModel> => {
    await new Promise(setImmediate);
    const model = new FakeModel();
    loads[number].resolve(model as unknown as Model);
    return model;
  };
  return { lazy, loads, settle };
}

interface PromiseWithResolvers<Value> {
  readonly promise: Promise<Value>;
  readonly resolve: (value: Value) => void;
  readonly reject: (reason: unknown) => void;
}

function withResolvers<Value>(): PromiseWithResolvers<Value> {
  let [resolve, reject]: [(value: Value) => void, (reason: unknown) => void] = [() => {}, () => {}];
  const promise = new Promise<Value>((fulfil, refuse) => ([resolve, reject] = [fulfil, refuse]));
  return { promise, resolve, reject };
}

describe("a model that is loaded at first use", () => {
  it("is loaded once, however many calls wait for it, and an abort leaves only its own call", async () => {
    const { lazy, loads, settle } = lazyModel();
    const ending = new AbortController();
    const [first, left, second] = [lazy.open(undefined), lazy.open(ending.signal), lazy.open(undefined)];
    ending.abort(new Error("left"));
    await expect(left).rejects.toThrow("left");
    const model = await settle(0);
    expect(await first).toBe(model);
    expect(await second).toBe(model);
    expect(await lazy.open(undefined)).toBe(model);
    expect(loads).toHaveLength(1);
    await lazy[Symbol.asyncDispose]();
    expect(model.disposals).toBe(1);
  });

  it("is loaded again after a load that failed", async () => {
    const { lazy, loads, settle } = lazyModel();
    const failed = lazy.open(undefined);
    await new Promise(setImmediate);
    loads[0].reject(new Error("no such file"));
    await expect(failed).rejects.toThrow("no such file");
    const again = lazy.open(undefined);
    expect(await settle(1)).toBe(await again);
  });

  it("is disposed and loaded again if its device was lost", async () => {
    const { lazy, loads, settle } = lazyModel();
    const opened = lazy.open(undefined);
    const lost = await settle(0);
    await opened;
    lost.isLost = true;
    const both = Promise.all([lazy.open(undefined), lazy.open(undefined)]);
    const model = await settle(1);
    expect(await both).toEqual([model, model]);
    expect([lost.disposals, loads.length]).toEqual([1, 2]);
  });

  it("is disposed if its load ends after the provider was disposed, and refused to calls that wait", async () => {
    const { lazy, settle } = lazyModel();
    const opened = lazy.open(undefined);
    const disposed = lazy[Symbol.asyncDispose]();
    const model = await settle(0);
    await expect(opened).rejects.toMatchObject({ code: "DISPOSED" });
    await disposed;
    expect(model.disposals).toBe(1);
    await expect(lazy.open(undefined)).rejects.toMatchObject({ code: "DISPOSED" });
  });
});

it.each([
  [7, /\[here\] model: expected an open model, a path/],
  ["", /\[here\] path: expected the path of a model file/],
  [{ contextTokens: 5 }, /\[here\] path/],
  [{ path: "m.gguf", contextToken: 5 }, /did you mean "contextTokens"/],
])("rejects %o as a model", (given, message) => {
  expect(() => providedModel("here", given, {})).toThrow(message);
});
