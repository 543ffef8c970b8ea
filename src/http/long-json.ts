import { jsonChunks } from "../domain/kernel/json-text.ts";
import { ReadyJson } from "../domain/kernel/ready-json.ts";
import { inSlices, type Steps } from "../domain/kernel/slices.ts";

/** Lists longer than this are written piece by piece: each item may be as large as a rule. */
const LIST_ITEMS = 20;

/** A body that is already JSON text, of any length. */
export class JsonText {
  readonly [name: string]: unknown;
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }

  toJSON(): unknown {
    return JSON.parse(this.text);
  }
}

const hasLongList = (value: unknown, levels: number): boolean => {
  if (value === null || typeof value !== "object" || "toJSON" in value) return false;
  if (Array.isArray(value)) return value.length > LIST_ITEMS;
  return levels > 0 && Object.values(value).some((inner) => hasLongList(inner, levels - 1));
};

/** Whether a body is text already, or a long list, or contains one: it may be megabytes. */
export const isLong = (body: unknown): body is object =>
  body instanceof JsonText || body instanceof ReadyJson || hasLongList(body, 2);

/** Yields the bytes of a long body, with a pause after each chunk. */
export function* chunksOf(body: object): Steps<Buffer[]> {
  if (body instanceof JsonText) return [Buffer.from(body.text)];
  const chunks: Buffer[] = [];
  for (const text of yield* jsonChunks(body)) {
    chunks.push(Buffer.from(text));
    yield;
  }
  return chunks;
}

/**
 * Returns the bytes of a body as `response.json(body)` would send them; those of a long one are made in
 * slices.
 */
export const bytesOf = async (body: unknown): Promise<Buffer[]> =>
  isLong(body) ? inSlices(chunksOf(body)) : [Buffer.from(JSON.stringify(body) ?? "")];
