// Several pieces of work of one request side by side, a few at a time: the engine's queue is for all requests.

/** Results in order. The first failure is thrown when nothing runs any more; `cancel` makes the others end soon. */
export async function mapAtOnce<Item, Result>(
  items: readonly Item[],
  most: number,
  run: (item: Item, index: number) => Promise<Result>,
  cancel: (reason: Error) => void,
): Promise<Result[]> {
  const results: Result[] = Array.from({ length: items.length });
  const failures: unknown[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      const index = next++;
      try {
        results[index] = await run(items[index] as Item, index);
      } catch (error) {
        failures.push(error);
        cancel(error instanceof Error ? error : new Error("something failed", { cause: error }));
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, lane));
  if (failures.length > 0) throw failures[0];
  return results;
}
