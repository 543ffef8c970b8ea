import { z } from "zod";
import type { App } from "../app.ts";
import { DomainError, forbidden } from "../domain/kernel/errors.ts";
import {
  type ChannelSettings,
  type ChatActor,
  type ChatLine,
  type ChatMessage,
  REPORT_REASONS,
} from "../domain/kernel/events/social-views.ts";
import { grouped } from "../domain/kernel/flights.ts";
import type { RowScope } from "../domain/kernel/work.ts";
import { sendAsKnown, SendMemory } from "../domain/social/chat/send-known.ts";
import { CHAT_COMMANDS, type SendBody, Seq } from "../domain/social/chat/commands.ts";
import { admitSend, type GiveBack } from "../domain/social/chat/admit-send.ts";
import type { ChannelRef } from "../domain/social/chat/channels.ts";
import { prepareText } from "../domain/social/chat/context.ts";
import { type Sending, sendMessages, type Sent } from "../domain/social/chat/messages.ts";
import { prepareFilter } from "../domain/social/chat/moderation/filters.ts";
import {
  admitReport,
  REPORT_NOTE_MAX,
  reportMessage,
} from "../domain/social/chat/moderation/report-queue.ts";
import { recordBlocked } from "../domain/social/chat/moderation/sanction-changes.ts";
import type { LiveClient } from "./session.ts";
import { transactIn } from "./mirror-room.ts";
import { Rate } from "./pace.ts";

const ReportBody = z.strictObject({
  seq: Seq,
  reason: z.enum(REPORT_REASONS),
  note: z.string().min(1).max(REPORT_NOTE_MAX).optional(),
});

/** Counts a refused message against its sender: after the third the player is muted. */
const countRefused = async (
  app: App,
  { projectId, channelId }: ChannelRef,
  actor: ChatActor,
  error: unknown,
): Promise<void> => {
  if (actor.kind !== "PLAYER") return;
  const parts = { limiter: app.limiter, transact: transactIn(app, projectId) };
  await recordBlocked(parts, { projectId, channelId, playerId: actor.playerId }, error);
};

type ChatRequest = {
  body: z.ZodType;
  run(app: App, ref: ChannelRef, actor: ChatActor, body: unknown): Promise<unknown>;
};

const report: ChatRequest = {
  body: ReportBody,
  run: async (app, ref, actor, body) => {
    if (actor.kind !== "PLAYER")
      throw forbidden("PLAYER_TOKEN_REQUIRED", "only players can report messages: use a player's token");
    const { playerId } = actor;
    await admitReport(app, ref.projectId, playerId);
    const given = { playerId, ...(body as z.output<typeof ReportBody>) };
    const { id, createdAt } = await transactIn(app, ref.projectId)((work) => reportMessage(work, ref, given));
    return { id, createdAt };
  },
};

/** Requests besides sends that clients of room `chat` may make, by message name. */
export const CHAT_REQUESTS: ReadonlyMap<string, ChatRequest> = new Map([
  ["chat.report", report],
  ...Object.entries(CHAT_COMMANDS).map(([name, command]): [string, ChatRequest] => [
    name,
    {
      body: command.body,
      run: async (app, ref, actor, body) => {
        try {
          const transact = transactIn(app, ref.projectId);
          if (name === "chat.edit") await prepareFilter({ transact }, ref.projectId);
          return (await transact((work) => command.run(work, ref, actor, body))).reply;
        } catch (error) {
          await countRefused(app, ref, actor, error);
          throw error;
        }
      },
    },
  ]),
]);

/** Maximum number of sends of one room that are not committed yet, and maximum number of sends per commit. */
export const WAITING_MAX = 1_200;
const GROUP_MAX = 200;
/** Minimum milliseconds between the starts of two commits; readers are not notified more often either. */
const COMMIT_EVERY_MS = 15;

type Send = z.output<typeof SendBody>;

type ChatSenderParts = {
  app(): App;
  ref(): ChannelRef;
  /** Whose project it is; undefined where only the project is known. */
  tenantId(): string | undefined;
  settings(): ChannelSettings;
  /** Receives the lines of a commit, on the next iteration of the event loop after it is durable. */
  onCommitted(lines: readonly ChatLine[]): void;
  onError(error: unknown): void;
};

/** Handles the sends of a room's clients: applies their rate limits and commits them in groups. */
export class ChatSender {
  readonly #parts: ChatSenderParts;
  /** A channel's sends cost one transaction per round trip to the database instead of one each. */
  readonly #group = grouped<Sending, Sent>({
    run: (group) => this.#commit(group),
    runMax: GROUP_MAX,
    everyMs: COMMIT_EVERY_MS,
  });
  /** Number of sends that are not committed yet. */
  #waiting = 0;
  readonly #memory = new SendMemory();
  /** By sender and `clientMsgId`, so that simultaneous duplicates are sent once. */
  readonly #pending = new Map<string, Promise<ChatMessage>>();

  constructor(parts: ChatSenderParts) {
    this.#parts = parts;
  }

  /** @throws DomainError as `admitSend` and `sendMessages` do */
  async send(actor: ChatActor, send: Send): Promise<ChatMessage> {
    if (send.clientMsgId === undefined) return this.#sendNew(actor, send);
    const key = `${actor.kind === "PLAYER" ? actor.playerId : ""}:${send.clientMsgId}`;
    const known = this.#pending.get(key);
    if (known) return known;
    const sending = this.#sendNew(actor, send);
    this.#pending.set(key, sending);
    try {
      return await sending;
    } finally {
      this.#pending.delete(key);
    }
  }

  async #sendNew(actor: ChatActor, send: Send): Promise<ChatMessage> {
    const { app, ref, settings } = this.#parts;
    const giveBack = await admitSend(app(), ref(), { actor, send, settings: settings() });
    const sent = await this.#sendInGroup({ actor, send }, giveBack);
    if ("message" in sent) return sent.message;
    await countRefused(app(), ref(), actor, sent.error);
    throw sent.error;
  }

  async #sendInGroup(sending: Sending, giveBack: GiveBack): Promise<Sent> {
    const waiting = this.#waiting++;
    try {
      if (waiting >= WAITING_MAX) {
        const retry = { retryAfterSeconds: 1 };
        throw new DomainError("SERVICE_UNAVAILABLE", "too many messages at once, try again", retry);
      }
      // Who waits for others is screened meanwhile.
      return await this.#group(waiting > 0 ? this.#prepare(sending) : sending);
    } catch (error) {
      await giveBack(error);
      throw error;
    } finally {
      this.#waiting--;
    }
  }

  /** Only texts of players are screened. */
  #prepare({ actor, send }: Sending): Sending {
    if (actor.kind !== "PLAYER") return { actor, send };
    const { ref, settings } = this.#parts;
    return { actor, send, screening: prepareText(ref().projectId, settings(), send.content) };
  }

  async #commit(group: readonly Sending[]): Promise<readonly Sent[]> {
    const { ref, tenantId } = this.#parts;
    // It sees the tenant's webhooks, which may wait for the messages.
    const scope = { role: "web", tenantId: tenantId() ?? "", projectIds: [ref().projectId] } as const;
    const { sent, lines } = (await this.#commitAsKnown(scope, group)) ?? (await this.#commitIn(scope, group));
    // Starts the next group's commit before a crowd is notified of this one.
    setImmediate(() => this.#reportCommitted(lines));
    return sent;
  }

  #commitAsKnown(scope: RowScope, sendings: readonly Sending[]) {
    const { app, ref } = this.#parts;
    const { commitAs, clock } = app();
    return sendAsKnown(commitAs(scope), ref(), { memory: this.#memory, sendings, now: clock() });
  }

  async #commitIn(scope: RowScope, group: readonly Sending[]) {
    const { app, ref } = this.#parts;
    const done = await app().transactAs(scope)((work) => sendMessages(work, ref(), group, true));
    this.#memory.learn(done.context.row);
    return done;
  }

  #reportCommitted(lines: readonly ChatLine[]): void {
    const { onCommitted, onError } = this.#parts;
    try {
      onCommitted(lines);
    } catch (error) {
      onError(error);
    }
  }
}

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

type ChatVolatilesParts = {
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
  readonly #typing = new Rate(1, TYPING_EVERY_MS);
  readonly #reading = new Rate(1, READ_EVERY_MS);
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
