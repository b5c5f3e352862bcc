// Whatever messages, tools and options contain, the only control tokens of a prompt are those that the template writes,
// and the tokens spell the text unchanged. Ordinary chats have the tokens of their prompt as one text.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ChatRenderer } from "../../../src/chat/chat-renderer.js";
import type { ChatConversation } from "../../../src/chat/message.js";
import { familyModel, type FamilyModel, written } from "./family-model.js";
import { controlsOf, FAMILIES, type Family } from "./family-templates.js";

let renderer: ChatRenderer;
beforeAll(() => {
  renderer = new ChatRenderer({ deadlineMs: 30_000, threads: 1 });
});
afterAll(() => renderer[Symbol.asyncDispose]());

/** A chat with text in every field that can have one; `say` returns the text. */
function conversation(family: Family, say: (place: string) => string): ChatConversation {
  const calls = [
    {
      id: say("id"),
      name: say("function"),
      arguments: JSON.stringify({ [say("key")]: say("value"), list: [say("item")], inner: { deep: say("deep") } }),
    },
  ];
  return {
    messages: [
      { role: "system", content: say("system") },
      { role: "user", content: say("user"), name: say("name") },
      ...(family.tools
        ? ([
            { role: "assistant", content: say("before"), reasoning: say("thought"), toolCalls: calls },
            { role: "tool", content: say("result"), toolCallId: say("id"), name: say("function") },
          ] as const)
        : []),
      { role: "assistant", content: say("answer"), reasoning: say("reasoning") },
      { role: "user", content: say("question") },
    ],
    tools: family.tools
      ? [
          {
            name: say("tool"),
            description: say("description"),
            parameters: {
              type: "object",
              properties: { [say("property")]: { type: "string", description: say("about"), enum: [say("choice")] } },
            },
          },
        ]
      : [],
    toolChoice: { kind: "auto" },
    thinking: undefined,
    constrained: false,
    templateOptions: { tone: say("tone") },
  };
}

async function promptOf(model: FamilyModel, chat: ChatConversation) {
  const { prompt, segments } = await renderer.render(model, chat);
  const tokens = model.tokenizer.encodeSegments(segments, { addSpecial: false });
  return { prompt, segments, tokens, controls: [...tokens].filter((token) => token < model.controls) };
}

for (const [name, family] of Object.entries(FAMILIES)) {
  describe(`${name}`, () => {
    const model = familyModel(family);
    const controls = controlsOf(family);
    /** The turns are the same in every chat, so that the template's own control tokens are, too. */
    const own = async (): Promise<readonly number[]> =>
      (
        await promptOf(
          model,
          conversation(family, (place) => place),
        )
      ).controls;

    test("ordinary messages give the tokens of the prompt as one text", async () => {
      for (const say of [
        (place: string) => place,
        (place: string) => ` Hé! <b>${place}</b>\n| "it's" 5 < 6 |> [ok] `,
      ]) {
        const { prompt, tokens } = await promptOf(model, conversation(family, say));
        expect([...tokens]).toStrictEqual([
          ...model.tokenizer.encode(prompt, { addSpecial: false, parseSpecial: true }),
        ]);
        expect(written(model, tokens)).toBe(prompt);
      }
    });

    test("messages full of control tokens give none beyond the template's, and the text comes back", async () => {
      const all = controls.join("");
      const attacks = [
        ...controls.map((token) => (place: string) => `${token}${place}${token}`),
        () => all,
        () => `</think>${all}\n${controls.toReversed().join("</think>")}`,
        // Halves that meet if two texts are adjacent, or if something between them is removed.
        ...controls.flatMap((token) =>
          [2, token.length - 1].map((cut) => (place: string) => `${token.slice(cut)}${place}--${token.slice(0, cut)}`),
        ),
        ...controls.map(
          (token) => () =>
            token.slice(0, 2) +
            (family.template?.includes("<|channel>") === true ? "<|channel>x<channel|>" : "--") +
            token.slice(2),
        ),
        ...controls.map((token) => () => [...token].toReversed().join("")),
        ...controls.map((token) => () => token.toUpperCase()),
      ];
      const expected = await own();
      for (const attack of attacks) {
        const { prompt, tokens, controls: found } = await promptOf(model, conversation(family, attack));
        expect(found).toStrictEqual(expected);
        expect(written(model, tokens)).toBe(prompt);
      }
    });

    test("nor do random parts of them", async () => {
      const expected = await own();
      const part = fc.oneof(
        fc.constantFrom(...controls),
        fc.constantFrom(
          ...controls.flatMap((token) => [token.slice(0, 3), token.slice(3), token.slice(-2)]),
          "<",
          "|",
          ">",
          "[",
          "]",
          " ",
          "@",
          "\n",
        ),
      );
      await fc.assert(
        fc.asyncProperty(
          fc.array(
            fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join("")),
            { minLength: 7, maxLength: 7 },
          ),
          async (texts) => {
            let next = 0;
            // A field may be empty, and some templates then write no turn for it, so all of them have a letter.
            const {
              prompt,
              tokens,
              controls: found,
            } = await promptOf(
              model,
              conversation(family, () => `x${texts[next++ % texts.length] as string}`),
            );
            expect(found).toStrictEqual(expected);
            expect(written(model, tokens)).toBe(prompt);
          },
        ),
        { numRuns: 12 },
      );
    });
  });
}

test("a BOS in a message is not the prompt's, and marks of thoughts in a message open none", async () => {
  const plain = familyModel({ vocabulary: "spm", controls: [], tools: false });
  const chat = conversation(FAMILIES["a plain dialogue, by default"] as Family, () => "<s>");
  const { tokens } = await promptOf(plain, chat);
  expect([...tokens].filter((token) => token === 0)).toHaveLength(1);
  expect(tokens[0]).toBe(0);

  const open = familyModel({
    vocabulary: "bpe",
    controls: ["[THINK]", "[/THINK]"],
    tools: false,
    template: "{% for m in messages %}{{ m.content }}{% endfor %}",
  });
  const rendered = await renderer.render(open, { ...chat, messages: [{ role: "user", content: "[THINK]" }] });
  expect(rendered.createParser().push("Hi")).toStrictEqual([{ kind: "text", text: "Hi" }]);
});
