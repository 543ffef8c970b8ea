import type { z } from "zod";
import type { App } from "../app.ts";
import { admitSend, type GiveBack } from "../domain/social/chat/admit-send.ts";
import type { SendBody } from "../domain/social/chat/bodies.ts";
import type { ChannelRef } from "../domain/social/chat/channels.ts";
import { prepareText } from "../domain/social/chat/moderating.ts";
import { type Sending, sendMessages, type Sent } from "../domain/social/chat/messages.ts";
import { sendAsKnown, SendMemory } from "../domain/social/chat/send-known.ts";
import type { RowScope } from "../domain/kernel/work.ts";
import type {
  ChannelSettings,
  ChatActor,
  ChatLine,
  ChatMessage,
} from "../domain/kernel/events/chat-views.ts";
import { countRefused } from "./chat-commands.ts";
import { GroupSender } from "./group-sender.ts";

type Send = z.output<typeof SendBody>;

export type ChatSenderParts = {
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
  readonly #group = new GroupSender<Sending, Sent>(
    (group) => this.#commit(group),
    (sending) => this.#prepare(sending),
  );
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
    try {
      return await this.#group.send(sending);
    } catch (error) {
      await giveBack(error);
      throw error;
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
