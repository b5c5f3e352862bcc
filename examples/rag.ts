// Answers a question from the text files of a folder: splits them into passages, embeds the passages, finds those nearest
// to the question, and asks the model to answer from these alone, with their numbers as citations.
//   node rag.ts FOLDER QUESTION [model.gguf]

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { embeddedModelPath, loadModel } from "rocmforge";

const PASSAGE_CHARACTERS = 300;
const MAX_PASSAGES = 5;

interface Passage {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

const [folder, question, file = embeddedModelPath()] = process.argv.slice(2);
if (folder === undefined || question === undefined) throw new Error("usage: node rag.ts FOLDER QUESTION [model.gguf]");

/** Lines, joined up to a paragraph's end or the length of a passage; longer lines are cut. */
function passagesOf(name: string, text: string): Passage[] {
  const passages: { file: string; line: number; text: string }[] = [];
  let isOpen = false;
  for (const [index, line] of text.split("\n").entries()) {
    const last = passages.at(-1);
    if (line.trim() === "") isOpen = false;
    else if (isOpen && last !== undefined && last.text.length + line.length < PASSAGE_CHARACTERS)
      last.text += `\n${line}`;
    else {
      for (let start = 0; start < line.length; start += PASSAGE_CHARACTERS)
        passages.push({ file: name, line: index + 1, text: line.slice(start, start + PASSAGE_CHARACTERS) });
      isOpen = true;
    }
  }
  return passages;
}

const names = (await readdir(folder)).filter((name) => /\.(?:md|txt)$/.test(name)).sort();
const passages = (
  await Promise.all(names.map(async (name) => passagesOf(name, await readFile(join(folder, name), "utf8"))))
).flat();

await using model = await loadModel(file);

// All passages are embedded together; vectors have length 1, so their dot product is the cosine of their angle.
const [query, ...vectors] = await model.embed([question, ...passages.map(({ text }) => text)]);
const nearest = passages
  .map((passage, index) => ({
    ...passage,
    score: query.reduce((sum, value, at) => sum + value * vectors[index][at], 0),
  }))
  .sort((left, right) => right.score - left.score)
  .slice(0, MAX_PASSAGES);

// The best of them, as many as fill half of the context: the rest is for the question and the answer.
let spareTokens = model.contextTokens / 2;
const cited = nearest.filter(({ text }) => (spareTokens -= model.tokenize(text).length) > 0);
const sources = cited.map(({ text }, index) => `[${index + 1}] ${text}`).join("\n\n");
const chat = model.chat(
  [
    { role: "system", content: "Answer from the sources alone and cite their numbers, as in [1]." },
    { role: "user", content: `Sources:\n\n${sources}\n\nQuestion: ${question}` },
  ],
  { maxTokens: 200, temperature: 0 },
);
for await (const event of chat) if (event.type === "text") process.stdout.write(event.text);

console.log(`\n\nFound in ${passages.length} passages of ${names.length} files:`);
for (const [index, { file: source, line, score }] of cited.entries())
  console.log(`[${index + 1}] ${source}:${line} (${score.toFixed(3)})`);
