// A reply as a typed object: every token is chosen so that the reply satisfies the schema. Zod 4 is one way to write it;
// any Standard Schema or JSON Schema works, too.
//   node typed-object.ts [model.gguf]

import { embeddedModelPath, loadModel } from "rocmforge";
import { z } from "zod";

await using model = await loadModel(process.argv[2] ?? embeddedModelPath());

const Hero = z.object({
  name: z.string().min(2).max(12),
  age: z.int().min(7).max(99),
  kind: z.enum(["human", "fox", "raven"]),
  virtues: z.array(z.enum(["brave", "clever", "kind", "patient"])).max(2),
});

const chat = model.chat([{ role: "user", content: "Who is the hero of the tale?" }], { schema: Hero, seed: 1 });
const { object, usage } = await chat.result;

const hero: z.infer<typeof Hero> = object;
console.log(`${hero.name}, a ${hero.kind} of ${hero.age} years, ${hero.virtues.join(" and ") || "without virtues"}`);
console.log(`${usage.completionTokens} tokens`);
