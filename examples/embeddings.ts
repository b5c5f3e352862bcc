// 50 embeddings, and the nearest neighbour of a question among them. Vectors have length 1, so the dot product of two
// vectors is their cosine similarity.
//   node embeddings.ts [model.gguf]

import { embeddedModelPath, loadModel } from "rocmforge";

await using model = await loadModel(process.argv[2] ?? embeddedModelPath());

const animals = ["fox", "wolf", "raven", "goose", "bear", "hare", "frog", "horse", "cat", "hedgehog"];
const deeds = [
  "stole the golden apple",
  "slept in the forest",
  "spoke to the king",
  "crossed the river",
  "sang at night",
];
const sentences = animals.flatMap((animal) => deeds.map((deed) => `The ${animal} ${deed}.`));

const vectors = await model.embed(sentences);
const [question] = await model.embed(["The raven sang at night."]);

const similarity = (left: Float32Array, right: Float32Array): number =>
  left.reduce((sum, value, index) => sum + value * right[index], 0);
const [nearest] = sentences
  .map((sentence, index) => ({ sentence, score: similarity(question, vectors[index]) }))
  .sort((left, right) => right.score - left.score);

console.log(`${vectors.length} embeddings of ${question.length} dimensions`);
console.log(`nearest: ${nearest.sentence} (${nearest.score.toFixed(3)})`);
