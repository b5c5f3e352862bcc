// The messages between the two sides of a limited thread. One call is in flight at a time, so calls need no ids.

import type { TransferListItem } from "node:worker_threads";

/** What a limited thread posts: that it is ready, or the outcome of a call. */
export type ThreadReply =
  /** The worker's module is loaded. */
  | { readonly kind: "ready" }
  | { readonly kind: "answer"; readonly value: unknown }
  | { readonly kind: "thrown"; readonly name: string; readonly message: string };

/** An answer whose buffers are transferred to the caller instead of being copied. */
export class Transferred<Answer> {
  readonly value: Answer;
  readonly buffers: readonly TransferListItem[];

  constructor(value: Answer, buffers: readonly TransferListItem[]) {
    this.value = value;
    this.buffers = buffers;
  }
}
