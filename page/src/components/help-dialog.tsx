// The keyboard shortcuts, as a list.

import { isHelpOpen } from "../state/panels";
import { SHORTCUTS } from "../shortcuts";
import { Dialog } from "./dialog";

export function HelpDialog() {
  return (
    <Dialog title="Keyboard shortcuts" isOpen={isHelpOpen.value} onClose={() => (isHelpOpen.value = false)}>
      <dl class="shortcuts">
        {SHORTCUTS.map(({ keys, what }) => (
          <div key={what}>
            <dt>{what}</dt>
            <dd>
              {keys.split("+").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
