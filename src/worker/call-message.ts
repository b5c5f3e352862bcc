// What the two sides of a limited thread say to each other. One call is under way at a time, so that none needs a number.

import type { TransferListItem } from "node:worker_threads";

export type ThreadReply =
  /** Its module is loaded. */
  | { readonly kind: "ready" }
  | { readonly kind: "answer"; readonly value: unknown }
  | { readonly kind: "thrown"; readonly name: string; readonly message: string };

/** An answer whose buffers move to the asker instead of being copied. */
export class Transferred<Answer> {
  readonly value: Answer;
  readonly buffers: readonly TransferListItem[];

  constructor(value: Answer, buffers: readonly TransferListItem[]) {
    this.value = value;
    this.buffers = buffers;
  }
}
