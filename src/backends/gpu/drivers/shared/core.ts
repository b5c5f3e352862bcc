// State that the parts of a device share: its functions, checked and in the background, its open handles, its lifetime.

import { Lifetime } from "../../../../lifetime.js";
import type { DeviceAdapter } from "./adapter.js";
import { BackgroundCalls } from "./background-calls.js";
import type { DriverCalls } from "./calls.js";
import { CheckedCalls } from "./checked-calls.js";
import { Outputs } from "./ffi.js";
import { type HandleKind, Ledger } from "./ledger.js";

/** State that the parts of one `NativeDevice` share. */
export class DeviceCore {
  readonly adapter: DeviceAdapter;
  readonly calls: DriverCalls;
  readonly checked: CheckedCalls;
  readonly background: BackgroundCalls;
  readonly ledger = new Ledger();
  /** Room for two results of calls on this thread. */
  readonly outputs = new Outputs(16);
  readonly lifetime: Lifetime;

  constructor(adapter: DeviceAdapter) {
    const { kind, bound, properties } = adapter;
    this.adapter = adapter;
    this.calls = bound.calls;
    this.background = new BackgroundCalls(() => adapter.bindBackgroundThread());
    this.checked = new CheckedCalls(
      { kind, bound, index: properties.index, words: (number) => adapter.words(number) },
      this.outputs,
    );
    this.lifetime = new Lifetime(this.checked.place);
  }

  /** Makes the device current for this thread; throws if it has been disposed. */
  use(): void {
    this.lifetime.assertAlive();
    this.adapter.makeCurrent();
  }

  /** Cleared memory to which a call on this thread may write its result. */
  out(): bigint {
    return this.outputs.clear().address;
  }

  /** Records the handle that a call has just written. */
  enter(kind: HandleKind): bigint {
    const handle = this.outputs.pointer();
    this.ledger.add(kind, handle);
    return handle;
  }
}
