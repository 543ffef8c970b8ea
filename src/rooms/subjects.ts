import type { WebSocket } from "ws";
import type { LiveClient } from "./live-client.ts";

/** The open sockets of each player or user in one room, so that nobody has to look through all. */
export class Subjects {
  readonly #clients = new Map<string, Set<LiveClient>>();

  /** Knows a socket until it closes, which is told to `onClose`. */
  keep(subject: string, client: LiveClient, onClose: () => void): void {
    const own = this.#clients.get(subject) ?? new Set();
    this.#clients.set(subject, own.add(client));
    const forget = (): void => {
      onClose();
      own.delete(client);
      if (own.size === 0 && this.#clients.get(subject) === own) this.#clients.delete(subject);
    };
    const socket = client.ref as WebSocket;
    socket.once("close", forget);
    if (socket.readyState === socket.CLOSED) forget();
  }

  /** The oldest first. */
  of(subject: string): LiveClient[] {
    return [...(this.#clients.get(subject) ?? [])];
  }
}
