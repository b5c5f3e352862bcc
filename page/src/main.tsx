// Starts the page.

import { render } from "preact";
import { App } from "./app";
import { startShortcuts } from "./shortcuts";
import { startConversations } from "./state/conversations";
import { refreshModels } from "./state/models";
import { isSidebarOpen } from "./store/preferences";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/messages.css";
import "./styles/controls.css";
import "./styles/views.css";

// On a phone the list covers the conversation, so it starts hidden.
if (matchMedia("(max-width: 760px)").matches) isSidebarOpen.value = false;

const root = document.querySelector("#app");
if (root !== null) render(<App />, root);
startShortcuts();
void startConversations();
void refreshModels();
