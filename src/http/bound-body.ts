import type { IncomingMessage, ServerResponse } from "node:http";
import { CHUNK_MIN_BYTES, hasBody } from "./body.ts";

/**
 * Chunks of a body beyond one for each CHUNK_MIN_BYTES: each costs as much CPU as kilobytes of a plain body.
 * More than a reader of the body accepts, so that it can answer before the connection is closed.
 */
const CHUNKS_FREE_MAX = 2_000;
/**
 * What is still read of a body after its response, so that a client which writes before it reads gets that
 * response, and not a reset.
 */
const REST_MAX_BYTES = 16 * 1024 * 1024;
const REST_MAX_MS = 5_000;

/** Counts what Node's parser passes on, and closes the connection at once when that is too much. */
class Meter {
  readonly #request: IncomingMessage;
  #bytes = 0;
  #chunks = 0;
  #bytesMax = Infinity;
  #isOver = false;

  constructor(request: IncomingMessage) {
    this.#request = request;
    const push = request.push.bind(request);
    // The parser goes on to the end of what it has read, ten thousand chunks, whatever becomes of the socket.
    request.push = (chunk: Buffer | null, encoding) =>
      this.#isOver || !this.#takes(chunk) || push(chunk, encoding);
  }

  /** Reads what follows and forgets it, up to REST_MAX_BYTES and REST_MAX_MS. */
  discardRest(): void {
    const request = this.#request;
    this.#bytesMax = this.#bytes + REST_MAX_BYTES;
    const timer = setTimeout(() => this.#end(), REST_MAX_MS).unref();
    request.once("close", () => clearTimeout(timer));
    request.resume();
  }

  #takes(chunk: Buffer | null): boolean {
    if (chunk === null) return true;
    this.#bytes += chunk.length;
    this.#chunks += 1;
    const chunksMax = CHUNKS_FREE_MAX + this.#bytes / CHUNK_MIN_BYTES;
    if (this.#bytes <= this.#bytesMax && this.#chunks <= chunksMax) return true;
    this.#end();
    return false;
  }

  #end(): void {
    this.#isOver = true;
    this.#request.pause();
    this.#request.socket.destroy();
  }
}

/**
 * Bounds the chunks of a request's body, whether anybody reads it or not, and what follows its response: a
 * refusal is sent before the body has come, and Node would read on until the request's timeout.
 */
export const boundBody = (request: IncomingMessage, response: ServerResponse): void => {
  if (!hasBody(request)) return;
  const meter = new Meter(request);
  // Node forgets the rest without passing it on, unless somebody has begun to read: this begins, and takes
  // nothing.
  request.read(0);
  response.once("finish", () => {
    if (!request.complete && !request.destroyed) meter.discardRest();
  });
};
