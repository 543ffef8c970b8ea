import type { z } from "zod";
import type { Work } from "../../kernel/work.ts";
import { DeleteBody, EditBody, ReactBody, ReadBody } from "./bodies.ts";
import { type ChatChange, deleteMessage, editMessage } from "./change-message.ts";
import type { ChannelRef } from "./channel-row.ts";
import { react } from "./react.ts";
import { markRead } from "./read-marker.ts";
import type { ChatActor } from "../../kernel/events/chat-views.ts";

export type { ChatChange } from "./change-message.ts";

/**
 * A change in a channel other than a send, the same by REST and by room. Throws DomainError for what is not
 * allowed.
 */
export type ChatCommand = {
  body: z.ZodType;
  run(work: Work, ref: ChannelRef, actor: ChatActor, body: unknown): Promise<ChatChange>;
};

/** A command with its body's type, which the table does not know any more. */
const command = <B extends z.ZodType>(
  body: B,
  run: (work: Work, ref: ChannelRef, actor: ChatActor, body: z.output<B>) => Promise<ChatChange>,
): ChatCommand => ({ body, run: (work, ref, actor, value) => run(work, ref, actor, value as z.output<B>) });

/** Every command by the name of its message. `run` is given what `body` has read. */
export const CHAT_COMMANDS: Readonly<Record<string, ChatCommand>> = {
  "chat.edit": command(EditBody, editMessage),
  "chat.delete": command(DeleteBody, deleteMessage),
  "chat.react": command(ReactBody, react),
  "chat.read": command(ReadBody, markRead),
};
