import { type Client, ClientState, getMessageBytes, Protocol } from "@colyseus/core";
import { binaryFrame, FramedSocket } from "./framed-socket.ts";

/**
 * What all clients of a room are told at one moment: each message is encoded and framed once, and each socket
 * gets them all in one write. Writes are most of what telling a crowd costs.
 */
export class FanOut {
  readonly #messages: Buffer[] = [];

  /** Keeps a message until the next `flush`. */
  add(name: string, message: unknown): void {
    this.#messages.push(getMessageBytes.raw(Protocol.ROOM_DATA, name, message));
  }

  /** Sends what was added, in that order, to clients as a broadcast would. */
  flush(clients: Iterable<Client>): void {
    if (this.#messages.length === 0) return;
    const messages = this.#messages.splice(0);
    const frames = Buffer.concat(messages.map(binaryFrame));
    for (const client of clients) {
      const { ref, state } = client as Client & { ref: unknown };
      const isSent = state === ClientState.JOINED && ref instanceof FramedSocket && ref.sendFrames(frames);
      // Who has not joined yet, or has gone, is core's business.
      if (!isSent) for (const message of messages) client.enqueueRaw(message);
    }
  }
}
