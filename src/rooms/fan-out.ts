import { type Client, ClientState, getMessageBytes, Protocol } from "@colyseus/core";
import { binaryFrame, FramedSocket } from "./framed-socket.ts";

/** Between two writes to a crowd that is told one thing after another, in ms: at least, and at most. */
export const FLUSH_EVERY_MS = 15;
const FLUSH_PAUSE_MAX_MS = 100;
/** The pause after a write, in times of what it took: a fifth of a process goes into those of one room. */
const PAUSE_FOR_WRITE = 4;
/** What waits for the next write at most. */
export const FLUSH_BYTES = 64 * 1_024;

export type FanOutParts = {
  /** Who is told. */
  clients(): Iterable<Client>;
  later(delayMs: number, run: () => void): void;
};

/**
 * What all clients of a room are told: each message is encoded and framed once, and each socket gets all
 * that has come in one write. Writes are most of what telling a crowd costs, so when one thing follows
 * another what came last waits a moment for the next.
 */
export class FanOut {
  readonly #parts: FanOutParts;
  #messages: Buffer[] = [];
  #bytes = 0;
  #flushNextAtMs = -Infinity;
  #isWaiting = false;

  constructor(parts: FanOutParts) {
    this.#parts = parts;
  }

  /** Keeps a message until the next `flush`. */
  add(name: string, message: unknown): void {
    const bytes = getMessageBytes.raw(Protocol.ROOM_DATA, name, message);
    this.#messages.push(bytes);
    this.#bytes += bytes.length;
  }

  /** Sends what was added at once, or when the last time is long enough ago. */
  soon(): void {
    if (this.#messages.length === 0) return;
    const leftMs = this.#flushNextAtMs - performance.now();
    if (leftMs <= 0 || this.#bytes > FLUSH_BYTES) return this.flush();
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    this.#parts.later(leftMs, () => {
      this.#isWaiting = false;
      this.flush();
    });
  }

  /** Sends what was added, in that order, as a broadcast would. */
  flush(): void {
    if (this.#messages.length === 0) return;
    const messages = this.#messages;
    const startMs = performance.now();
    [this.#messages, this.#bytes] = [[], 0];
    const frames = Buffer.concat(messages.map(binaryFrame));
    for (const client of this.#parts.clients()) {
      const { ref, state } = client as Client & { ref: unknown };
      const isSent = state === ClientState.JOINED && ref instanceof FramedSocket && ref.sendFrames(frames);
      // Who has not joined yet, or has gone, is core's business.
      if (!isSent) for (const message of messages) client.enqueueRaw(message);
    }
    const endMs = performance.now();
    const pauseMs = Math.min(FLUSH_PAUSE_MAX_MS, PAUSE_FOR_WRITE * (endMs - startMs));
    this.#flushNextAtMs = Math.max(startMs + FLUSH_EVERY_MS, endMs + pauseMs);
  }
}
