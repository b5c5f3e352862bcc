// The panel beside the conversation: settings, or one of the two views of the engine.

import { panel, type Panel } from "../state/panels";
import { EngineView } from "../views/engine-view";
import { ResidencyView } from "../views/residency-view";
import { IconButton } from "./icon-button";
import { SettingsPanel } from "./settings-panel";

const TITLES: Readonly<Record<Panel, string>> = {
  settings: "Settings",
  engine: "What the engine is doing",
  residency: "What is resident",
};

export function SidePanel() {
  const shown = panel.value;
  if (shown === undefined) return null;
  return (
    <aside class="side-panel" aria-label={TITLES[shown]}>
      <header>
        <h2>{TITLES[shown]}</h2>
        <IconButton icon="close" label="Close panel" onClick={() => (panel.value = undefined)} />
      </header>
      {/* Scrolling by keyboard needs a stop. */}
      <div class="side-panel-body" tabIndex={0} role="region" aria-label={TITLES[shown]}>
        {shown === "settings" && <SettingsPanel />}
        {shown === "engine" && <EngineView />}
        {shown === "residency" && <ResidencyView />}
      </div>
    </aside>
  );
}
