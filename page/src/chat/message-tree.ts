// The tree of a conversation's messages: the branch that is shown, the alternatives beside a message, and what is below.

import type { Message } from "./message";

/** The messages of a conversation by their ids. */
export type MessageTree = ReadonlyMap<string, Message>;

/** From the first message to the leaf. */
export function branchTo(tree: MessageTree, leafId: string | null): readonly Message[] {
  const branch: Message[] = [];
  for (let id = leafId; id !== null;) {
    const message = tree.get(id);
    if (message === undefined) break;
    branch.push(message);
    id = message.parentId;
  }
  return branch.reverse();
}

/** The messages below one, oldest first. */
export function childrenOf(tree: MessageTree, parentId: string | null): readonly Message[] {
  return [...tree.values()]
    .filter((message) => message.parentId === parentId)
    .sort((one, other) => one.createdAt - other.createdAt);
}

/** A message among its alternatives. */
export interface BranchPosition {
  readonly index: number;
  readonly siblings: readonly Message[];
}

export function positionOf(tree: MessageTree, { id, parentId }: Message): BranchPosition {
  const siblings = childrenOf(tree, parentId);
  return { index: siblings.findIndex((sibling) => sibling.id === id), siblings };
}

/** The end of the newest branch below a message. */
export function newestLeaf(tree: MessageTree, id: string): string {
  for (let current = id; ;) {
    const newest = childrenOf(tree, current).at(-1);
    if (newest === undefined) return current;
    current = newest.id;
  }
}

/** The calls of an answer that no message below it on the branch answers. */
export function openCalls(branch: readonly Message[]): ReadonlySet<string> {
  const open = new Set<string>();
  for (const { role, toolCalls = [], toolCallId, end } of branch) {
    if (role === "assistant" && end !== undefined) for (const { id } of toolCalls) open.add(id);
    if (toolCallId !== undefined) open.delete(toolCallId);
  }
  return open;
}
