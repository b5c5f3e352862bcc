// The page: conversations, the one that is shown, a panel beside it.

import { Composer } from "./components/composer";
import { EmptyChat } from "./components/empty-chat";
import { Header } from "./components/header";
import { HelpDialog } from "./components/help-dialog";
import { KeyDialog } from "./components/key-dialog";
import { MessageList } from "./components/message-list";
import { SidePanel } from "./components/side-panel";
import { Sidebar } from "./components/sidebar";
import { branch } from "./state/conversations";
import { notice, panel } from "./state/panels";
import { isSidebarOpen } from "./store/preferences";

export function App() {
  return (
    <div class={`app ${isSidebarOpen.value ? "with-sidebar" : ""} ${panel.value === undefined ? "" : "with-panel"}`}>
      {isSidebarOpen.value && <Sidebar />}
      <div class="conversation-pane">
        <Header />
        <main>
          {branch.value.length === 0 ? <EmptyChat /> : <MessageList />}
          <Composer />
        </main>
      </div>
      <SidePanel />
      <KeyDialog />
      <HelpDialog />
      <p class={`notice ${notice.value === undefined ? "" : "shown"}`} role="status">
        {notice.value}
      </p>
    </div>
  );
}
