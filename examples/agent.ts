// An agent: in each step the model calls a tool, sees its result and decides on the next, until it answers. `required`
// holds every reply to a call whose arguments satisfy the tool's schema, so even a small model stays in the loop.
//   node agent.ts FOLDER TASK [model.gguf]

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { type ChatMessage, embeddedModelPath, loadModel, type Reply, Session, type ToolCall } from "rocmforge";
import { z } from "zod";

const MAX_STEPS = 6;
const MAX_RESULT_CHARACTERS = 400;

const [folder, task, file = embeddedModelPath()] = process.argv.slice(2);
if (folder === undefined || task === undefined) throw new Error("usage: node agent.ts FOLDER TASK [model.gguf]");

const names = (await readdir(folder)).filter((name) => name.endsWith(".txt")).sort();
if (names.length === 0) throw new Error(`${folder} has no .txt files`);

/** What the model may do. Files are an enumeration: no name that it makes up can lead out of the folder. */
const tools = {
  list: {
    description: "Lists the files",
    parameters: z.object({}),
    run: async () => names.join("\n"),
  },
  read: {
    description: "Reads the beginning of a file",
    parameters: z.object({ name: z.enum(names as [string, ...string[]]) }),
    run: async ({ name }: { name: string }) =>
      (await readFile(join(folder, name), "utf8")).slice(0, MAX_RESULT_CHARACTERS),
  },
  answer: {
    description: "Gives the final answer, and ends the task",
    parameters: z.object({ text: z.string().min(1).max(200) }),
    run: async ({ text }: { text: string }) => text,
  },
};

/** Runs a call; what goes wrong is a result, too, so that the model can try something else. */
async function run(call: ToolCall): Promise<string> {
  const tool = tools[call.name as keyof typeof tools];
  if (tool === undefined) return `There is no tool ${call.name}.`;
  const input = tool.parameters.safeParse(call.input);
  if (!input.success) return `The arguments are invalid: ${input.error.message}`;
  try {
    return await tool.run(input.data as never);
  } catch (error) {
    return `It failed: ${String(error)}`;
  }
}

// Calls and results add up: a context for all of them, even if the model was made for less.
await using model = await loadModel(file, { contextTokens: 4096 });
const session = model.session({
  system: "Solve the task with the tools, one call at a time.",
  chat: {
    tools: Object.entries(tools).map(([name, { description, parameters }]) => ({ name, description, parameters })),
    parallelToolCalls: false,
    maxTokens: 150,
    seed: 1,
  },
});

let turn: string | ChatMessage[] = task;
for (let step = 1; step <= MAX_STEPS; step++) {
  // It looks around first, decides by itself in between, and has to answer in the last step.
  const toolChoice = step === 1 ? { name: "list" } : step < MAX_STEPS ? "required" : { name: "answer" };
  const reply: Reply = await session.say(turn, { toolChoice });
  const call = reply.toolCalls.at(0);
  // Cut off by maxTokens, perhaps while it was still thinking.
  if (call === undefined) throw new Error(`the model called no tool: ${reply.finishReason}`);
  const result = await run(call);
  console.log(`${step}. ${call.name}(${call.arguments})`);
  if (call.name === "answer") {
    console.log(`\n${result}`);
    break;
  }
  turn = [Session.toolResult(call, result)];
}
