import { setTimeout as delay } from "node:timers/promises";
import type { Player } from "../rooms/sdk.ts";
import type { Delivery, Message, Reader } from "../checkers/append.ts";
import type { History } from "../checkers/history.ts";
import { answered, replied } from "../http/ask.ts";
import type { Client } from "../http/client.ts";
import type { Random } from "../seed.ts";
import { type AnyRoom, joinOnce, Staying } from "../rooms/staying.ts";

const EVERY_MS = [60, 180] as const;
/** How often a message whose end is not known is sent again. */
const TRIES_MAX = 12;
/** Of messages, how many are sent by the API. */
const API_SHARE = 0.3;
const REJOIN_SHARE = 0.04;

type RawMessage = { seq: number; id: string; content: string; sender: { playerId: string } | null };
const messageOf = ({ seq, id, content, sender }: RawMessage): Message => ({
  seq,
  id,
  content,
  senderId: sender?.playerId ?? "",
});

export type Talk = { api: Client; key: string; channelId: string; history: History; isOver: boolean };

/** A player in a channel who reads as the guide has it, and talks until the load is over. */
export class ChatClient implements Reader {
  readonly sessions: Delivery[][] = [];
  readonly name: string;
  readonly place: Staying;
  readonly #talk: Talk;
  readonly #player: Player;
  readonly #random: Random;

  constructor(talk: Talk, player: Player, { name, random }: { name: string; random: Random }) {
    this.name = name;
    this.#talk = talk;
    this.#player = player;
    this.#random = random;
    const { api, channelId } = talk;
    this.place = new Staying({
      join: () => joinOnce(api, player.token, "chat", { channelId, lastSeq: this.lastSeq }),
      listen: (room) => this.#listen(room),
    });
  }

  /** Up to where nothing is missing. */
  get lastSeq(): number {
    const seen = new Set(this.sessions.flat().flatMap(({ messages }) => messages.map(({ seq }) => seq)));
    let last = 0;
    while (seen.has(last + 1)) last++;
    return last;
  }

  #listen(room: AnyRoom): void {
    const session: Delivery[] = [];
    this.sessions.push(session);
    room.onMessage("chat.history", ({ data }: { data: { messages: RawMessage[]; lastSeq: number } }) => {
      session.push({ isHistory: true, messages: data.messages.map(messageOf) });
      if (this.lastSeq < data.lastSeq) void this.#resync(room);
    });
    room.onMessage("chat.message", ({ data }: { data: RawMessage }) => {
      session.push({ isHistory: false, messages: [messageOf(data)] });
    });
  }

  /** Asks for what the newest messages left out. */
  async #resync(room: AnyRoom): Promise<void> {
    const isDone = (): boolean => this.place.room !== room || !room.connection.isOpen;
    for (let target = Infinity; this.lastSeq < target && !isDone();) {
      const asked = room.request("chat.resync", { lastSeq: this.lastSeq });
      target = await asked.then(({ seq }: { seq: number }) => seq).catch(() => target);
      await delay(1_000);
    }
  }

  /** Says one thing after another; what is not answered is sent again. */
  async speak(): Promise<void> {
    for (let i = 1; !this.#talk.isOver; i++) {
      await this.#say(`word ${i} of ${this.name}`);
      if (this.#random.chance(REJOIN_SHARE)) this.place.cut();
      await delay(this.#random.between(...EVERY_MS));
    }
  }

  async #say(content: string): Promise<void> {
    const { history } = this.#talk;
    const value = { content, senderId: this.#player.playerId };
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const byApi = this.#random.chance(API_SHARE);
      const send = () => (byApi ? this.#post(content) : this.#request(content));
      const { outcome } = await history.run([this.name, "send"], value, send);
      if (outcome !== "info") return;
      await delay(this.#random.between(...EVERY_MS));
    }
  }

  async #post(content: string): Promise<{ seq: number; id: string }> {
    const { api, key, channelId } = this.#talk;
    const body = { content, clientMsgId: content, playerId: this.#player.playerId };
    const { seq, id } = answered(
      await api.post(`/api/v1/chat/channels/${channelId}/messages`, body, { key }),
    );
    return { seq, id };
  }

  async #request(content: string): Promise<{ seq: number; id: string }> {
    const { room } = this.place;
    if (!room) throw new Error("not there");
    return replied(room.request("chat.send", { content, clientMsgId: content }));
  }
}

/** All messages of a channel, by the API, oldest first. */
export const readChannel = async ({ api, key, channelId }: Talk): Promise<Message[]> => {
  const messages: Message[] = [];
  for (let isMore = true; isMore;) {
    const after = messages.at(-1)?.seq ?? 0;
    const path = `/api/v1/chat/channels/${channelId}/messages?after=${after}&limit=100`;
    const { data, pagination } = answered(await api.get(path, { key }));
    messages.push(...(data as RawMessage[]).map(messageOf));
    isMore = pagination.hasMore;
  }
  return messages;
};
