import { mapInSlices, nextSlice } from "../../kernel/slices.ts";

/** Characters of JSON per statement: what an embedded engine stores in about 10 ms. */
const PART_MAX = 128 * 1024;

/**
 * Passes rows to `write` as JSON arrays of at most PART_MAX characters each unless a single row is longer,
 * and yields to other work in between.
 * @throws the reason of the signal, before the next write
 */
export const writeInParts = async (
  rows: readonly object[],
  signal: AbortSignal,
  write: (json: string) => Promise<unknown>,
): Promise<void> => {
  const texts = await mapInSlices(rows, (row) => JSON.stringify(row));
  let part: string[] = [];
  let length = 0;
  for (const [i, text] of texts.entries()) {
    part.push(text);
    length += text.length;
    if (i < texts.length - 1 && length + texts[i + 1]!.length <= PART_MAX) continue;
    signal.throwIfAborted();
    await write(`[${part.join(",")}]`);
    await nextSlice();
    part = [];
    length = 0;
  }
};
