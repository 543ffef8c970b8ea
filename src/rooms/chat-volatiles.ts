import { ClientRate } from "./client-rate.ts";
import type { LiveClient } from "./live-client.ts";

const TYPING_EVERY_MS = 3_000;
const TYPING_SHOWN_MS = 5_000;
const READ_EVERY_MS = 1_000;
/** Minimum milliseconds between two updates of a crowd's online count. */
const ONLINE_EVERY_MS = 250;
/** A room that has been silent for this long is taken for gone; rooms publish their count every 5 s. */
const SILENT_MAX_MS = 15_000;

/** Ephemeral events between the rooms of one channel; none is stored. */
export type ChatVolatileEvent =
  | { kind: "TYPING"; playerId: string; until: string }
  | { kind: "READ"; playerId: string; seq: number }
  /** Number of sockets in a room, and who came with a first socket or left with the last. */
  | { kind: "ONLINE"; roomId: string; online: number; joined?: string; left?: string };

export type ChatVolatilesParts = {
  roomId: string;
  channelId: string;
  /**
   * Whether there are too many clients for individual updates: no read markers, no joins and leaves by name.
   */
  isCrowd: boolean;
  clients(): readonly LiveClient[];
  nowMs(): number;
  publish(event: ChatVolatileEvent): void;
  later(delayMs: number, run: () => unknown): void;
  sendToAll(name: string, data: unknown, except?: LiveClient[]): void;
  showOnline(online: number): void;
};

/** Presence, typing and read receipts, throttled, across all rooms of a channel. */
export class ChatVolatiles {
  readonly #parts: ChatVolatilesParts;
  readonly #typing = new ClientRate(TYPING_EVERY_MS);
  readonly #reading = new ClientRate(READ_EVERY_MS);
  #isOnlineDue = false;
  readonly #rooms = new Map<string, { online: number; seenAtMs: number }>();

  constructor(parts: ChatVolatilesParts) {
    this.#parts = parts;
  }

  type(client: LiveClient): void {
    const nowMs = this.#parts.nowMs();
    const { playerId } = client.auth!;
    if (playerId === null || !this.#typing.take(client, nowMs)) return;
    this.#parts.publish({ kind: "TYPING", playerId, until: new Date(nowMs + TYPING_SHOWN_MS).toISOString() });
  }

  read(client: LiveClient, { seq }: { seq: number }): void {
    const { playerId } = client.auth!;
    if (playerId === null || this.#parts.isCrowd) return;
    if (!this.#reading.take(client, this.#parts.nowMs())) return;
    this.#parts.publish({ kind: "READ", playerId, seq });
  }

  come(client: LiveClient): void {
    if (this.#parts.isCrowd) this.#publishOnlineSoon();
    else this.publishOnline(this.#isOnly(client) ? { joined: client.auth!.playerId } : {});
  }

  go(client: LiveClient): void {
    // The last client's leaving is published while the room still exists to publish it.
    if (this.#parts.isCrowd && this.#parts.clients().length > 0) this.#publishOnlineSoon();
    else this.publishOnline(this.#isOnly(client) ? { left: client.auth!.playerId } : {});
  }

  #publishOnlineSoon(): void {
    if (this.#isOnlineDue) return;
    this.#isOnlineDue = true;
    this.#parts.later(ONLINE_EVERY_MS, () => {
      this.#isOnlineDue = false;
      this.publishOnline();
    });
  }

  /** Publishes the count to all rooms of the channel, including this one. */
  publishOnline(who: { joined?: string | null; left?: string | null } = {}): void {
    const { roomId, isCrowd, publish } = this.#parts;
    const named = isCrowd ? [] : Object.entries(who).filter(([, playerId]) => playerId !== null);
    const online = this.#parts.clients().length;
    publish({ kind: "ONLINE", roomId, online, ...Object.fromEntries(named) });
  }

  receive(event: ChatVolatileEvent): void {
    const { channelId, sendToAll } = this.#parts;
    if (event.kind === "ONLINE") return this.#count(event);
    const { playerId } = event;
    const own = this.#parts.clients().filter(({ auth }) => auth?.playerId === playerId);
    if (event.kind === "TYPING") sendToAll("chat.typing", { channelId, playerId, until: event.until }, own);
    else sendToAll("chat.read", { channelId, playerId, seq: event.seq });
  }

  #count({ roomId, online, joined, left }: Extract<ChatVolatileEvent, { kind: "ONLINE" }>): void {
    const { channelId, sendToAll, showOnline } = this.#parts;
    this.#rooms.set(roomId, { online, seenAtMs: this.#parts.nowMs() });
    const total = this.#total();
    showOnline(total);
    if (joined === undefined && left === undefined) return;
    const who = { ...(joined === undefined ? {} : { joined }), ...(left === undefined ? {} : { left }) };
    sendToAll("chat.presence", { channelId, online: total, ...who });
  }

  #total(): number {
    const nowMs = this.#parts.nowMs();
    let total = 0;
    for (const [roomId, { online, seenAtMs }] of this.#rooms) {
      if (nowMs - seenAtMs > SILENT_MAX_MS) this.#rooms.delete(roomId);
      else total += online;
    }
    return total;
  }

  /** Whether the player has no other socket in this room; not computed where names are not published. */
  #isOnly(client: LiveClient): boolean {
    if (this.#parts.isCrowd) return false;
    const others = this.#parts.clients().filter((other) => other !== client);
    return !others.some(({ auth }) => auth?.subject === client.auth!.subject);
  }
}
