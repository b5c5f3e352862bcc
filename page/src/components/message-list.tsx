// The shown branch of a conversation. It follows a growing answer as long as its end is in view.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { openCalls, positionOf } from "../chat/message-tree";
import { generating } from "../state/answers";
import { branch, currentId, messages } from "../state/conversations";
import { AssistantMessage } from "./assistant-message";
import { IconButton } from "./icon-button";
import { ToolResult } from "./tool-calls";
import { UserMessage } from "./user-message";

/** A reader this close to the end follows it. */
const NEAR_END_PIXELS = 80;

export function MessageList() {
  const scroller = useRef<HTMLDivElement>(null);
  const [isAtEnd, setAtEnd] = useState(true);
  const shown = branch.value;
  const isBusy = currentId.value !== undefined && generating.value.has(currentId.value);
  const open = openCalls(shown);

  const toEnd = (behavior: ScrollBehavior): void =>
    scroller.current?.scrollTo({ top: scroller.current.scrollHeight, behavior });
  useLayoutEffect(() => {
    if (isAtEnd) toEnd("instant");
  }, [messages.value]);
  useEffect(() => {
    setAtEnd(true);
    toEnd("instant");
  }, [currentId.value, shown.length]);

  const onScroll = (): void => {
    const { scrollTop = 0, scrollHeight = 0, clientHeight = 0 } = scroller.current ?? {};
    setAtEnd(scrollHeight - scrollTop - clientHeight < NEAR_END_PIXELS);
  };
  return (
    // Scrolling by keyboard needs a stop.
    <div class="messages" ref={scroller} onScroll={onScroll} tabIndex={0} role="region" aria-label="Messages">
      <div class="messages-inner" role="log" aria-live="off">
        {shown.map((message, index) => {
          const position = positionOf(messages.value, message);
          const isLast = index === shown.length - 1;
          if (message.role === "user") return <UserMessage key={message.id} message={message} position={position} />;
          if (message.role === "tool") return <ToolResult key={message.id} message={message} />;
          return (
            <AssistantMessage
              key={message.id}
              message={message}
              position={position}
              openCalls={open}
              isGrowing={isLast && isBusy && message.end === undefined}
            />
          );
        })}
      </div>
      {!isAtEnd && (
        <IconButton class="to-end" icon="down" label="To the latest message" onClick={() => toEnd("smooth")} />
      )}
    </div>
  );
}
