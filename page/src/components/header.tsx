// The bar above the conversation: sidebar, model, panels.

import { panel, togglePanel } from "../state/panels";
import { openConversation } from "../state/conversations";
import { isSidebarOpen } from "../store/preferences";
import { IconButton } from "./icon-button";
import { ModelPicker } from "./model-picker";

export function Header() {
  return (
    <header class="header">
      <IconButton
        icon="menu"
        label={isSidebarOpen.value ? "Hide conversations" : "Show conversations"}
        onClick={() => (isSidebarOpen.value = !isSidebarOpen.value)}
      />
      {!isSidebarOpen.value && <IconButton icon="plus" label="New chat" onClick={() => openConversation(undefined)} />}
      <ModelPicker />
      <div class="spacer" />
      <IconButton
        icon="gauge"
        label="What the engine is doing"
        isPressed={panel.value === "engine"}
        onClick={() => togglePanel("engine")}
      />
      <IconButton
        icon="layers"
        label="What is resident"
        isPressed={panel.value === "residency"}
        onClick={() => togglePanel("residency")}
      />
      <IconButton
        icon="sliders"
        label="Settings"
        isPressed={panel.value === "settings"}
        onClick={() => togglePanel("settings")}
      />
    </header>
  );
}
