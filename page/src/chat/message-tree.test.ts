import { describe, expect, it } from "vitest";
import type { Message } from "./message";
import { branchTo, childrenOf, newestLeaf, openCalls, positionOf } from "./message-tree";

function message(id: string, parentId: string | null, rest: Partial<Message> = {}): Message {
  return { id, conversationId: "c", parentId, role: "user", content: id, createdAt: Number(id.slice(1)), ...rest };
}

/** m1 has the answers m2 and m3; m4 follows m2. */
const tree = new Map(
  [message("m1", null), message("m2", "m1"), message("m3", "m1"), message("m4", "m2")].map((each) => [each.id, each]),
);
const ids = (messages: readonly Message[]): readonly string[] => messages.map(({ id }) => id);

describe("a tree of messages", () => {
  it("has a branch to each leaf", () => {
    expect(ids(branchTo(tree, "m4"))).toEqual(["m1", "m2", "m4"]);
    expect(ids(branchTo(tree, "m3"))).toEqual(["m1", "m3"]);
    expect(branchTo(tree, null)).toEqual([]);
  });

  it("ends a branch at a message that is missing", () => {
    expect(ids(branchTo(new Map([["m4", message("m4", "m2")]]), "m4"))).toEqual(["m4"]);
  });

  it("orders alternatives by time", () => {
    expect(ids(childrenOf(tree, "m1"))).toEqual(["m2", "m3"]);
    expect(positionOf(tree, message("m3", "m1"))).toMatchObject({ index: 1, siblings: { length: 2 } });
  });

  it("finds the newest end below a message", () => {
    expect(newestLeaf(tree, "m1")).toBe("m3");
    expect(newestLeaf(tree, "m2")).toBe("m4");
  });

  it("knows which calls have no result", () => {
    const calls = ["a", "b"].map((id) => ({ id, name: id, arguments: "{}" }));
    const asked = message("m1", null, { role: "assistant", toolCalls: calls, end: "tool_calls" });
    expect([...openCalls([asked])]).toEqual(["a", "b"]);
    expect([...openCalls([asked, message("m2", "m1", { role: "tool", toolCallId: "a" })])]).toEqual(["b"]);
  });
});
