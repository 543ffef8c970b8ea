import type { LiveClient } from "./live-client.ts";

const TYPING_EVERY_MS = 3_000;
const TYPING_SHOWN_MS = 5_000;
const READ_EVERY_MS = 1_000;
/** The number of a crowd is told at most so often. */
const ONLINE_EVERY_MS = 250;
/** A room that has not been heard of for this long has gone; rooms tell their number every 5 s. */
const HEARD_MAX_MS = 15_000;

/** What rooms of one channel tell one another, and nobody keeps. */
export type ChatWord =
  | { kind: "TYPING"; playerId: string; until: string }
  | { kind: "READ"; playerId: string; seq: number }
  /** How many sockets a room has, and who has come with a first one or gone with the last. */
  | { kind: "ONLINE"; roomId: string; online: number; joined?: string; left?: string };

export type ChatVolatilesParts = {
  roomId: string;
  channelId: string;
  /** Too many to tell all of each: no read markers, and nobody's coming and going by name. */
  isCrowd: boolean;
  clients(): readonly LiveClient[];
  nowMs(): number;
  publish(word: ChatWord): void;
  later(delayMs: number, run: () => unknown): void;
  tellAll(name: string, data: unknown, except?: LiveClient[]): void;
  showOnline(online: number): void;
};

/** Who is there, types and has read: told to who is there, at most so often, over all rooms of a channel. */
export class ChatVolatiles {
  readonly #parts: ChatVolatilesParts;
  readonly #typedAtMs = new WeakMap<LiveClient, number>();
  readonly #readAtMs = new WeakMap<LiveClient, number>();
  #isOnlineDue = false;
  readonly #rooms = new Map<string, { online: number; heardAtMs: number }>();

  constructor(parts: ChatVolatilesParts) {
    this.#parts = parts;
  }

  type(client: LiveClient): void {
    const nowMs = this.#parts.nowMs();
    const { playerId } = client.auth!;
    if (playerId === null || nowMs - (this.#typedAtMs.get(client) ?? -Infinity) < TYPING_EVERY_MS) return;
    this.#typedAtMs.set(client, nowMs);
    this.#parts.publish({ kind: "TYPING", playerId, until: new Date(nowMs + TYPING_SHOWN_MS).toISOString() });
  }

  read(client: LiveClient, { seq }: { seq: number }): void {
    const nowMs = this.#parts.nowMs();
    const { playerId } = client.auth!;
    if (playerId === null || this.#parts.isCrowd) return;
    if (nowMs - (this.#readAtMs.get(client) ?? -Infinity) < READ_EVERY_MS) return;
    this.#readAtMs.set(client, nowMs);
    this.#parts.publish({ kind: "READ", playerId, seq });
  }

  come(client: LiveClient): void {
    if (this.#parts.isCrowd) this.#tellOnlineSoon();
    else this.tellOnline(this.#isOnly(client) ? { joined: client.auth!.playerId } : {});
  }

  go(client: LiveClient): void {
    // The last one's going is told while the room is still there to tell it.
    if (this.#parts.isCrowd && this.#parts.clients().length > 0) this.#tellOnlineSoon();
    else this.tellOnline(this.#isOnly(client) ? { left: client.auth!.playerId } : {});
  }

  #tellOnlineSoon(): void {
    if (this.#isOnlineDue) return;
    this.#isOnlineDue = true;
    this.#parts.later(ONLINE_EVERY_MS, () => {
      this.#isOnlineDue = false;
      this.tellOnline();
    });
  }

  /** To all rooms of the channel, this one included. */
  tellOnline(who: { joined?: string | null; left?: string | null } = {}): void {
    const { roomId, isCrowd, publish } = this.#parts;
    const named = isCrowd ? [] : Object.entries(who).filter(([, playerId]) => playerId !== null);
    const online = this.#parts.clients().length;
    publish({ kind: "ONLINE", roomId, online, ...Object.fromEntries(named) });
  }

  hear(word: ChatWord): void {
    const { channelId, tellAll } = this.#parts;
    if (word.kind === "ONLINE") return this.#count(word);
    const { playerId } = word;
    const own = this.#parts.clients().filter(({ auth }) => auth?.playerId === playerId);
    if (word.kind === "TYPING") tellAll("chat.typing", { channelId, playerId, until: word.until }, own);
    else tellAll("chat.read", { channelId, playerId, seq: word.seq });
  }

  #count({ roomId, online, joined, left }: Extract<ChatWord, { kind: "ONLINE" }>): void {
    const { channelId, tellAll, showOnline } = this.#parts;
    this.#rooms.set(roomId, { online, heardAtMs: this.#parts.nowMs() });
    const total = this.#total();
    showOnline(total);
    if (joined === undefined && left === undefined) return;
    const who = { ...(joined === undefined ? {} : { joined }), ...(left === undefined ? {} : { left }) };
    tellAll("chat.presence", { channelId, online: total, ...who });
  }

  #total(): number {
    const nowMs = this.#parts.nowMs();
    let total = 0;
    for (const [roomId, { online, heardAtMs }] of this.#rooms) {
      if (nowMs - heardAtMs > HEARD_MAX_MS) this.#rooms.delete(roomId);
      else total += online;
    }
    return total;
  }

  /** Whether no other socket of this room is of the same player; nobody asks where names are not told. */
  #isOnly(client: LiveClient): boolean {
    if (this.#parts.isCrowd) return false;
    const others = this.#parts.clients().filter((other) => other !== client);
    return !others.some(({ auth }) => auth?.subject === client.auth!.subject);
  }
}
