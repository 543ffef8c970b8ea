import type { Steps } from "./slices.ts";

/** Levels of objects that are split: a body and its fields. */
const LEVELS = 2;
/** Characters serialised before yielding. */
const CHUNK_LENGTH = 64 * 1024;
/** Rows of a table, of some hundred bytes each, that are serialised at once. */
const ROWS_AT_ONCE = 200;

const isPlain = (value: unknown): value is object => {
  if (value === null || typeof value !== "object" || "toJSON" in value) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === Object.prototype || prototype === null;
};

/**
 * Yields the texts that together are `JSON.stringify(value)` of a list, or of an object with lists in it: one
 * for each item. Throws where `JSON.stringify` does.
 */
export function* jsonPieces(value: object, levels = LEVELS): Generator<string, void, void> {
  if (!isPlain(value)) return yield JSON.stringify(value);
  if (Array.isArray(value)) return yield* itemPieces(value);
  let before = "{";
  for (const [name, inner] of Object.entries(value as Readonly<Record<string, unknown>>)) {
    const head = `${before}${JSON.stringify(name)}:`;
    if (levels > 0 && isPlain(inner)) {
      yield head;
      yield* jsonPieces(inner, levels - 1);
    } else {
      const text: string | undefined = JSON.stringify(inner);
      if (text === undefined) continue;
      yield head + text;
    }
    before = ",";
  }
  yield before === "{" ? "{}" : "}";
}

function* itemPieces(items: readonly unknown[]): Generator<string, void, void> {
  let before = "[";
  for (const item of items) {
    const text: string | undefined = JSON.stringify(item);
    yield before + (text ?? "null");
    before = ",";
  }
  yield before === "[" ? "[]" : "]";
}

/** Yields chunks of about CHUNK_LENGTH characters that together are `JSON.stringify(value)`. */
export function* jsonChunks(value: object): Steps<string[]> {
  const chunks: string[] = [];
  let text = "";
  for (const piece of jsonPieces(value)) {
    text += piece;
    if (text.length < CHUNK_LENGTH) continue;
    chunks.push(text);
    text = "";
    yield;
  }
  chunks.push(text);
  return chunks;
}

/** Returns `JSON.stringify(value)`, yielding in between; a few rows of a table are serialised at once. */
export function* jsonText(value: object): Steps<string> {
  if (Array.isArray(value) && value.length <= ROWS_AT_ONCE) return JSON.stringify(value);
  return (yield* jsonChunks(value)).join("");
}

/**
 * Returns JSON texts of about `maxLength` characters each, which together have all `rows` of a table in their
 * order, and at least one text. Yields in between; a few rows are serialised at once.
 */
export function* tableTexts(rows: readonly unknown[], maxLength: number): Steps<string[]> {
  if (rows.length <= ROWS_AT_ONCE) return [JSON.stringify(rows)];
  const texts: string[] = [];
  let [pieces, length, sinceYield]: [string[], number, number] = [[], 0, 0];
  const close = (): void => {
    texts.push(`[${pieces.join(",")}]`);
    [pieces, length] = [[], 0];
  };
  for (const row of rows) {
    const piece = JSON.stringify(row);
    if (length > 0 && length + piece.length > maxLength) close();
    pieces.push(piece);
    length += piece.length;
    sinceYield += piece.length;
    if (sinceYield < CHUNK_LENGTH) continue;
    sinceYield = 0;
    yield;
  }
  close();
  return texts;
}
