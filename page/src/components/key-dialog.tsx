// Asks for an API key: by itself when the server refuses a request for it, and from the sidebar.

import { useState } from "preact/hooks";
import { apiKey, isKeyRefused, setApiKey } from "../api/client";
import { refreshModels } from "../state/models";
import { isKeyDialogOpen } from "../state/panels";
import { Dialog } from "./dialog";

export function KeyDialog() {
  const isOpen = isKeyRefused.value || isKeyDialogOpen.value;
  const close = (): void => {
    isKeyRefused.value = false;
    isKeyDialogOpen.value = false;
  };
  return (
    <Dialog title="API key" isOpen={isOpen} onClose={close}>
      <KeyForm onDone={close} />
    </Dialog>
  );
}

function KeyForm({ onDone }: { readonly onDone: () => void }) {
  const [key, setKey] = useState(apiKey.value);
  const [remembers, setRemembers] = useState(false);
  const submit = (event: Event): void => {
    event.preventDefault();
    setApiKey(key.trim(), remembers);
    onDone();
    void refreshModels();
  };
  return (
    <form class="form" onSubmit={submit}>
      <p>
        {isKeyRefused.value && apiKey.value !== ""
          ? "The server does not accept this key."
          : "This server asks for an API key. It is sent to this server alone."}
      </p>
      <label>
        Key
        <input
          type="password"
          autocomplete="off"
          value={key}
          onInput={({ currentTarget }) => setKey(currentTarget.value)}
        />
      </label>
      <label class="checkbox">
        <input
          type="checkbox"
          checked={remembers}
          onChange={({ currentTarget }) => setRemembers(currentTarget.checked)}
        />
        Remember it in this browser
      </label>
      <button type="submit" class="button primary">
        Use this key
      </button>
    </form>
  );
}
