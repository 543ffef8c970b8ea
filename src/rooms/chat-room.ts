import type { AuthContext } from "@colyseus/core";
import { schema, type SchemaType, t } from "@colyseus/schema";
import { z } from "zod";
import type { App } from "../app.ts";
import { notFound } from "../domain/kernel/errors.ts";
import {
  type ChannelSettings,
  type ChannelStatus,
  type ChatChannel,
  type ChatLine,
  type ChatMessage,
} from "../domain/kernel/events/social-views.ts";
import { chatTopic, chatVolatileTopic } from "../domain/kernel/topics.ts";
import type { Work } from "../domain/kernel/work.ts";
import { findReaders, readerKey } from "../domain/social/chat/channel-row.ts";
import { type ChannelRef, readChannel } from "../domain/social/chat/channels.ts";
import { ANYBODY, readHistory, readLastSeqs } from "../domain/social/chat/messages.ts";
import { SendBody } from "../domain/social/chat/commands.ts";
import { authenticate } from "./authenticate.ts";
import { pinOptions, parse } from "./room-input.ts";
import type { LiveClient } from "./session.ts";
import { CHAT_REQUESTS, ChatSender, type ChatVolatileEvent, ChatVolatiles } from "./chat-commands.ts";
import {
  type Admitted,
  ChatChanges,
  createChannelFinder,
  createChatSnapshots,
  readerOf,
  speakerOf,
} from "./chat-snapshots.ts";
import { FanOut } from "./frames.ts";
import { CLOSE, live } from "./messages.ts";
import {
  assignChanged,
  gameRoom,
  MirrorRoom,
  openRoomsOf,
  source,
  type Source,
  transactIn,
} from "./mirror-room.ts";
import { freeRoomId } from "./room-ids.ts";
import { OrderedStream, REPLAY_MAX, type StreamPage } from "./ordered-stream.ts";
import { ResyncRate, type Ticker } from "./pace.ts";

/** State that every client of the room sees without a request. Messages travel as messages, not as state. */
const ChatState = schema(
  {
    channelId: t.string().default(""),
    kind: t.string().default(""),
    key: t.string().default(""),
    name: t.string().default(""),
    status: t.string<ChannelStatus>().default("ACTIVE"),
    readOnly: t.boolean().default(false),
    slowModeSeconds: t.uint32().default(0),
    maxLength: t.uint32().default(0),
    lastSeq: t.number().default(0),
    /** Number of sockets in all rooms of the channel; may be some seconds old. */
    online: t.uint32().default(0),
  },
  "ChatState",
);
type ChatState = SchemaType<typeof ChatState>;

const JoinOptions = z.object({
  channelId: z.string().min(1).max(64).describe("The channel's id, or the key of a PROJECT channel"),
  lastSeq: z.int().min(0).optional(),
});
const ResyncBody = z.object({ lastSeq: z.int().min(0) });
const RoomOptions = z.object({
  projectId: z.uuid(),
  tenantId: z.uuid().optional(),
  channelId: z.uuid(),
});

/** Returns the part of the state that follows from the channel's row. */
const stateOf = ({ id, kind, key, name, status, settings, lastSeq }: ChatChannel) => ({
  channelId: id,
  kind,
  key: key ?? "",
  name: name ?? "",
  status,
  readOnly: settings.readOnly,
  slowModeSeconds: settings.slowModeSeconds,
  maxLength: settings.maxLength,
  lastSeq,
});

/** One seq of a channel: the message for all readers, and the one for the sender of a held message. */
type Item = {
  seq: number;
  message: ChatMessage | undefined;
  own?: { playerId: string; message: ChatMessage };
};

/**
 * Groups `lines` into messages by seq. A held message has two lines: one for its sender, one for the others.
 */
const itemsOf = (lines: readonly ChatLine[]): Item[] => {
  const items = new Map<number, Item>();
  for (const line of lines) {
    if (line.name !== "chat.message") continue;
    const { seq } = line.data;
    const item = items.get(seq) ?? { seq, message: undefined };
    if (line.forPlayer === undefined) item.message = line.data;
    else item.own = { playerId: line.forPlayer, message: line.data };
    items.set(seq, item);
  }
  return [...items.values()];
};

/** Reads the channel's messages after a seq, as all readers see them, to fill a gap in the stream. */
const readItems = (app: App, ref: ChannelRef, afterSeq: number): Promise<StreamPage<Item>> =>
  transactIn(
    app,
    ref.projectId,
  )(async (work) => {
    const lastSeq = (await readLastSeqs(work, [ref])).get(ref.channelId);
    if (lastSeq === undefined) throw notFound("channel");
    const channel = { projectId: ref.projectId, id: ref.channelId };
    const rows = await readHistory(work, channel, ANYBODY, { after: afterSeq, limit: REPLAY_MAX + 1 });
    return { seq: lastSeq, messages: rows.map((message) => ({ seq: message.seq, message })) };
  });

/** A chat room that is periodically compared with the database. */
type OpenRoom = {
  ref: ChannelRef;
  /** Clients currently in the room. */
  present(): readonly LiveClient[];
  /**
   * Applies the result: the channel's newest seq, undefined when the channel no longer exists, and which
   * players of `present` may read it.
   */
  look(lastSeq: number | undefined, present: readonly LiveClient[], readers: ReadonlySet<string>): void;
};

const playersOf = (clients: readonly LiveClient[]): string[] => [
  ...new Set(clients.flatMap(({ auth }) => auth?.playerId ?? [])),
];

/** Takes two statements for all open rooms of this process. */
const rereadRooms = async (app: App, rooms: readonly OpenRoom[]): Promise<void> => {
  // Clients that join during the query were admitted by the join itself.
  const asked = rooms.map((room) => {
    const present = room.present();
    return { room, present, players: playersOf(present) };
  });
  const { lastSeqs, readers } = await app.transact(async (work) => ({
    lastSeqs: await readLastSeqs(
      work,
      rooms.map(({ ref }) => ref),
    ),
    readers: await findReaders(
      work,
      asked.flatMap(({ room: { ref }, players }) => players.map((playerId) => ({ ...ref, playerId }))),
    ),
  }));
  for (const { room, present, players } of asked) {
    const { channelId } = room.ref;
    const mayRead = new Set(players.filter((playerId) => readers.has(readerKey(channelId, playerId))));
    room.look(lastSeqs.get(channelId), present, mayRead);
  }
};

/** Maximum number of readers in one room; further readers get another room of the same channel. */
const READERS_MAX = 500;
/** Maximum number of rooms per channel. */
const CHAT_SHARDS = 64;

type Page = StreamPage<Item>;
/** Position of a client that is not in step with the room: it is catching up, or knows more than was sent. */
type Cursor = { seq: number; isLive: boolean };

/**
 * Room `chat`: the messages of one channel, in the order of `seq` and without gaps. It is the actor that
 * commits its clients' sends in groups; everything else is mirrored, so several rooms may show one channel.
 */
abstract class ChatRoom extends MirrorRoom<ChatState> implements OpenRoom {
  protected abstract override readonly open: Ticker<OpenRoom>;
  override state = new ChatState();
  override maxClients = READERS_MAX;
  ref: ChannelRef = { projectId: "", channelId: "" };
  #tenantId: string | undefined;
  #settings!: ChannelSettings;
  #volatiles!: ChatVolatiles;
  readonly #show = createChatSnapshots(
    () => this.app,
    () => this.ref,
  );
  readonly #resyncs = new ResyncRate("chat.resync");
  readonly #changes = new ChatChanges();
  readonly #behind = new Map<string, Cursor>();
  readonly #fanOut = new FanOut({
    clients: () => this.clients.filter(({ sessionId }) => !this.#behind.has(sessionId)),
    later: (delayMs, run) => this.later(delayMs, run),
  });
  readonly #sender = new ChatSender({
    app: () => this.app,
    ref: () => this.ref,
    tenantId: () => this.#tenantId,
    settings: () => this.#settings,
    onCommitted: (lines) => this.#deliverCommitted(lines),
    onError: (error) => this.report(error, "told"),
  });
  readonly #stream = new OrderedStream<Item, Page>({
    read: (afterSeq) => readItems(this.app, this.ref, afterSeq),
    deliver: (item) => this.#deliver(item),
    delivered: () => this.#fanOut.soon(),
    jump: (page) => this.#jump(page),
    later: (delayMs, run) => this.later(delayMs, run),
    onError: (error) => this.report(error, "stream"),
  });

  protected override follow(options: object): Source[] {
    const { tenantId, ...ref } = parse(RoomOptions, options);
    [this.ref, this.#tenantId] = [ref, tenantId];
    const { projectId, channelId } = ref;
    // Messages published before start() are kept until then.
    return [source<ChatLine[]>(chatTopic(projectId, channelId), (lines) => this.#receive(lines))];
  }

  protected override async load(): Promise<void> {
    const { projectId, channelId } = this.ref;
    const channel = await this.#transact((work) =>
      readChannel(work, this.ref, { kind: "SERVER", isModerator: true }),
    );
    assignChanged(this.state, stateOf(channel));
    this.#settings = channel.settings;
    const subject = ["chat", projectId, channelId];
    this.roomId = await freeRoomId({ subject, count: CHAT_SHARDS, what: "channel" });
    await this.#shareVolatiles(channel.kind === "PROJECT");
    this.#takeRequests();
    this.#stream.start(channel.lastSeq);
  }

  /** Clients currently here; the re-read checks which of them may stay. */
  present(): readonly LiveClient[] {
    return [...this.clients];
  }

  look(lastSeq: number | undefined, present: readonly LiveClient[], readers: ReadonlySet<string>): void {
    this.#volatiles.publishOnline();
    if (lastSeq !== undefined) this.#stream.expect(lastSeq);
    for (const client of present) {
      const playerId = client.auth?.playerId ?? null;
      const mayStay = playerId === null ? lastSeq !== undefined : readers.has(playerId);
      if (!mayStay) this.end(client, CLOSE.FORBIDDEN, "REMOVED");
    }
  }

  protected override async welcome(client: LiveClient, options: object, isBack: boolean): Promise<void> {
    // Data sent into a dying connection may be lost: a reconnected client gets the newest messages again.
    const lastSeq = isBack ? undefined : parse(JoinOptions, { channelId: "-", ...options }).lastSeq;
    await this.#catchUp(client, lastSeq, (options as { admitted?: Admitted }).admitted);
    this.#volatiles.come(client);
  }

  protected override hold(client: LiveClient): void {
    this.#setBehind(client, { seq: 0, isLive: false });
  }

  /** Marks a client as out of step; pending messages are flushed to those who were in step until now. */
  #setBehind(client: LiveClient, cursor: Cursor): void {
    if (client.userData) this.#fanOut.flush();
    this.#behind.set(client.sessionId, cursor);
    this.#fanOut.flush();
  }

  protected override farewell(client: LiveClient): void {
    this.#behind.delete(client.sessionId);
    if (client.userData) this.#volatiles.go(client);
  }

  #transact<T>(run: (work: Work) => Promise<T>): Promise<T> {
    return transactIn(this.app, this.ref.projectId)(run);
  }

  async #shareVolatiles(isCrowd: boolean): Promise<void> {
    const { projectId, channelId } = this.ref;
    const topic = chatVolatileTopic(projectId, channelId);
    this.#volatiles = new ChatVolatiles({
      roomId: this.roomId,
      channelId,
      isCrowd,
      clients: () => this.clients,
      nowMs: () => this.app.clock().getTime(),
      publish: (word) => this.app.topics.publish(topic, word),
      later: (delayMs, run) => this.later(delayMs, run),
      sendToAll: (name, data, except) => this.sendToAll(name, data, except),
      showOnline: (online) => assignChanged(this.state, { online }),
    });
    await this.listen<ChatVolatileEvent>(topic, (event) => this.#volatiles.receive(event));
  }

  #takeRequests(): void {
    this.onMessage(
      "chat.send",
      this.handle(SendBody, (client, send) => this.#sender.send(speakerOf(client.auth!), send)),
    );
    this.onMessage("chat.typing", (client: LiveClient) => {
      if (this.state.status === "ACTIVE" && !this.state.readOnly) this.#volatiles.type(client);
    });
    this.onMessage(
      "chat.resync",
      this.handle(ResyncBody, (client, { lastSeq }) => this.#resync(client, lastSeq)),
    );
    for (const [name, { body, run }] of CHAT_REQUESTS) {
      const answer = async (client: LiveClient, payload: unknown): Promise<unknown> => {
        const reply = await run(this.app, this.ref, speakerOf(client.auth!), payload);
        if (name === "chat.read") this.#volatiles.read(client, payload as { seq: number });
        return reply;
      };
      this.onMessage(name, this.handle(body, answer));
    }
  }

  async #resync(client: LiveClient, lastSeq: number): Promise<{ seq: number }> {
    this.#resyncs.take(client, this.app.clock());
    return { seq: await this.#catchUp(client, lastSeq) };
  }

  /** Delivers committed lines at once. The outbox publishes them too, later; a known seq is ignored. */
  #deliverCommitted(lines: readonly ChatLine[]): void {
    if (lines.length === 0) return;
    this.#receive(lines);
    this.app.topics.publish(chatTopic(this.ref.projectId, this.ref.channelId), lines);
  }

  #receive(lines: readonly ChatLine[]): void {
    this.#stream.receive(itemsOf(lines));
    for (const line of lines) {
      if (line.name === "chat.message") continue;
      // An edit must not arrive before its message.
      this.#fanOut.flush();
      this.#changes.keep(line);
      if (line.name === "chat.channel") {
        const { status, settings } = line.data;
        this.#settings = settings;
        const { readOnly, slowModeSeconds, maxLength } = settings;
        assignChanged(this.state, { status, readOnly, slowModeSeconds, maxLength });
      }
      this.sendToAll(line.name, line.data);
    }
  }

  #deliver({ seq, message, own }: Item): void {
    const except = this.#notInStep(seq);
    this.state.lastSeq = seq;
    if (message && !own && except.length === 0)
      return this.#fanOut.add("chat.message", live(this.app.clock(), message));
    this.#fanOut.flush();
    if (own) {
      for (const client of this.clients) {
        if (client.auth?.playerId !== own.playerId || except.includes(client)) continue;
        this.sendTo(client, "chat.message", own.message);
        except.push(client);
      }
    }
    if (message) this.sendToAll("chat.message", message, except);
  }

  /** Clients that must not be sent `seq`: those that are catching up, or have it already. */
  #notInStep(seq: number): LiveClient[] {
    if (this.#behind.size === 0) return [];
    return this.clients.filter(({ sessionId }) => {
      const cursor = this.#behind.get(sessionId);
      if (!cursor) return false;
      if (!cursor.isLive || cursor.seq >= seq) return true;
      this.#behind.delete(sessionId);
      return false;
    });
  }

  /** Restarts every client that is in step, when too much was missed to be replayed line by line. */
  #jump({ seq }: Page): void {
    this.state.lastSeq = seq;
    for (const client of this.clients) {
      const isInStep = this.#behind.get(client.sessionId)?.isLive ?? true;
      if (isInStep) this.later(0, () => this.#catchUp(client, undefined));
    }
  }

  /** Brings a client from `lastSeq`, or from nothing, up to the room's head; from then on it is in step. */
  async #catchUp(client: LiveClient, lastSeq: number | undefined, admitted?: Admitted): Promise<number> {
    const { sessionId } = client;
    const cursor: Cursor = { seq: lastSeq ?? 0, isLive: false };
    this.#setBehind(client, cursor);
    const [actor, sinceMs] = [readerOf(client.auth!), performance.now()];
    let [from, known] = [lastSeq, admitted];
    do {
      const shown = await this.#show({ actor, lastSeq: from, admitted: known });
      known = undefined;
      if (from !== undefined && from !== lastSeq && shown.resumed) {
        for (const message of shown.messages) this.sendTo(client, "chat.message", message);
      } else this.sendTo(client, "chat.history", shown);
      from = shown.lastSeq;
      // The room may have sent more to the others during this read.
    } while (from < this.#stream.head && this.#behind.get(sessionId) === cursor);
    for (const { name, data } of this.#changes.since(sinceMs)) this.sendTo(client, name, data);
    cursor.seq = from;
    cursor.isLive = true;
    this.#stream.expect(from);
    return from;
  }
}

/** Creates the room `chat` of an application. */
export const chatRoom = (app: App) => {
  const open = openRoomsOf<OpenRoom>(app, "chat rooms", (rooms) => rereadRooms(app, rooms));
  const enter = createChannelFinder(app);
  const room = class extends ChatRoom {
    protected readonly app = app;
    protected readonly open = open;

    static override async onAuth(token: string, options: object, context: AuthContext): Promise<unknown> {
      const principal = await authenticate(app, token, context);
      const { projectId, tenantId } = principal;
      const admitted = await enter({ principal, channel: parse(JoinOptions, options).channelId });
      pinOptions(options, JoinOptions, { projectId, tenantId, channelId: admitted.channel.id, admitted });
      return principal;
    }
  };
  return gameRoom({ room, selectedBy: ["projectId", "channelId"], isCrowd: true });
};
