import type { WebSocket } from "ws";
import type { LiveClient } from "./live-client.ts";

/** The open sockets of each player or user in one room, indexed so that no look-up scans all clients. */
export class Subjects {
  readonly #clients = new Map<string, Set<LiveClient>>();

  /** Tracks a socket until it closes, then calls `onClose`. */
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

  /** Oldest first. */
  of(subject: string): LiveClient[] {
    return [...(this.#clients.get(subject) ?? [])];
  }
}
