import { describe, expect, it } from "vitest";
import { BackendError, GpuError, TensorError } from "../../errors.js";
import { anthropicErrorBody, openAiErrorBody, RequestError, toRequestError } from "./request-error.js";

const INSIDES = "[cache] 512 of 81,559,486,464 bytes are free on device-of-ours";

describe("the error that a client gets", () => {
  it.each([
    new BackendError("BACKEND_MEMORY", INSIDES),
    new TensorError("TENSOR_BUDGET", INSIDES),
    new GpuError("GPU_OUT_OF_MEMORY", INSIDES),
    new GpuError("GPU_DEVICE_LOST", INSIDES),
  ])("is not what the inside says, but when to come again: $code", (error) => {
    const told = toRequestError(error);
    expect(told).toMatchObject({ status: 503, retryAfterSeconds: 10, cause: error });
    expect(told.message).toMatch(/^\[server\] .*; try again later$/);
    expect(told.message).not.toMatch(/bytes|\d|ours/);
  });

  it("is internal for an unknown error", () => {
    expect(toRequestError(new Error(INSIDES))).toMatchObject({
      status: 500,
      message: expect.not.stringContaining("bytes"),
    });
  });

  it.each([
    [400, "invalid_request_error", "invalid_request_error"],
    [401, "authentication_error", "authentication_error"],
    [403, "permission_error", "permission_error"],
    [404, "invalid_request_error", "not_found_error"],
    [413, "invalid_request_error", "request_too_large"],
    [429, "rate_limit_error", "rate_limit_error"],
    [500, "server_error", "api_error"],
    [503, "service_unavailable_error", "overloaded_error"],
  ])("has a type of each API: %d", (status, openAi, anthropic) => {
    const error = new RequestError("[x] no", { status, code: "no" });
    expect([openAiErrorBody(error).error.type, anthropicErrorBody(error, null).error.type]).toEqual([
      openAi,
      anthropic,
    ]);
  });
});
