import type { Response } from "express";
import { inSlices, type Steps } from "../domain/slices.ts";

/** Items of a list above which a body is written piece by piece: a page of any list has fewer. */
const LIST_ITEMS = 100;
/** Characters that are put together before they become bytes. */
const CHUNK_LENGTH = 64 * 1024;

const isLongList = (value: unknown): value is unknown[] => Array.isArray(value) && value.length > LIST_ITEMS;

/** Whether a body is a long list or an object that has one: as JSON it may be megabytes. */
export const isLong = (body: unknown): body is object => {
  if (body === null || typeof body !== "object" || "toJSON" in body) return false;
  return isLongList(body) || (!Array.isArray(body) && Object.values(body).some(isLongList));
};

/** The texts that together are `JSON.stringify(value)` of a value for which `isLong` is true. */
const piecesOf = function* (value: object): Generator<string, void, void> {
  if (Array.isArray(value)) return yield* listPieces(value);
  let before = "{";
  for (const [name, inner] of Object.entries(value)) {
    const head = `${before}${JSON.stringify(name)}:`;
    if (isLongList(inner)) {
      yield head;
      yield* listPieces(inner);
    } else {
      const text: string | undefined = JSON.stringify(inner);
      if (text === undefined) continue;
      yield head + text;
    }
    before = ",";
  }
  yield "}";
};

const listPieces = function* (items: readonly unknown[]): Generator<string, void, void> {
  let before = "[";
  for (const item of items) {
    const text: string | undefined = JSON.stringify(item);
    yield before + (text ?? "null");
    before = ",";
  }
  yield "]";
};

/** The bytes of a long body, with a rest after each chunk. */
export const chunksOf = function* (body: object): Steps<Buffer[]> {
  const chunks: Buffer[] = [];
  let text = "";
  for (const piece of piecesOf(body)) {
    text += piece;
    if (text.length < CHUNK_LENGTH) continue;
    chunks.push(Buffer.from(text));
    text = "";
    yield;
  }
  chunks.push(Buffer.from(text));
  return chunks;
};

/** Answers as `response.json(body)` would, to the byte, in slices. What is no JSON throws before a byte. */
export const sendLong = async (response: Response, body: object): Promise<void> => {
  const chunks = await inSlices(chunksOf(body));
  response.type("json").set("Content-Length", String(chunks.reduce((sum, { length }) => sum + length, 0)));
  if (response.req.method === "HEAD") return void response.end();
  for (const chunk of chunks) response.write(chunk);
  response.end();
};
