import { type Client, ClientState, getMessageBytes, Protocol } from "@colyseus/core";
import { binaryFrame, FramedSocket } from "./framed-socket.ts";

/** Minimum and maximum milliseconds between two writes to a crowd during a burst of messages. */
export const FLUSH_EVERY_MS = 15;
const FLUSH_PAUSE_MAX_MS = 100;
/** The pause after a write, as a multiple of its duration: writes of one room take a fifth of a process. */
const PAUSE_FOR_WRITE = 4;
/** Maximum number of bytes that wait for the next write. */
export const FLUSH_BYTES = 64 * 1_024;

export type FanOutParts = {
  /** The recipients. */
  clients(): Iterable<Client>;
  later(delayMs: number, run: () => void): void;
};

/**
 * Broadcasts to all clients of a room: each message is encoded and framed once, and each socket gets all
 * pending messages in one write. Writes are most of the cost of a broadcast, so during a burst later messages
 * wait a moment for the next write.
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

  /** Queues a message until the next `flush`. */
  add(name: string, message: unknown): void {
    const bytes = getMessageBytes.raw(Protocol.ROOM_DATA, name, message);
    this.#messages.push(bytes);
    this.#bytes += bytes.length;
  }

  /** Flushes at once, or as soon as the minimum interval since the last flush has passed. */
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

  /** Sends the queued messages in order, as a broadcast would. */
  flush(): void {
    if (this.#messages.length === 0) return;
    const messages = this.#messages;
    const startMs = performance.now();
    [this.#messages, this.#bytes] = [[], 0];
    const frames = Buffer.concat(messages.map(binaryFrame));
    for (const client of this.#parts.clients()) {
      const { ref, state } = client as Client & { ref: unknown };
      const isSent = state === ClientState.JOINED && ref instanceof FramedSocket && ref.sendFrames(frames);
      // Clients that have not joined yet, or have left, are handled by core.
      if (!isSent) for (const message of messages) client.enqueueRaw(message);
    }
    const endMs = performance.now();
    const pauseMs = Math.min(FLUSH_PAUSE_MAX_MS, PAUSE_FOR_WRITE * (endMs - startMs));
    this.#flushNextAtMs = Math.max(startMs + FLUSH_EVERY_MS, endMs + pauseMs);
  }
}
