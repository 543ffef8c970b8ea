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
 * A change in a channel other than a send, the same by REST and by room. Throws DomainError if it is not
 * allowed.
 */
export type ChatCommand = {
  body: z.ZodType;
  run(work: Work, ref: ChannelRef, actor: ChatActor, body: unknown): Promise<ChatChange>;
};

/** Builds a command, dropping its body's type, which the table does not track. */
const command = <B extends z.ZodType>(
  body: B,
  run: (work: Work, ref: ChannelRef, actor: ChatActor, body: z.output<B>) => Promise<ChatChange>,
): ChatCommand => ({ body, run: (work, ref, actor, value) => run(work, ref, actor, value as z.output<B>) });

/** Every command by its message name. `run` receives the result of `body`. */
export const CHAT_COMMANDS: Readonly<Record<string, ChatCommand>> = {
  "chat.edit": command(EditBody, editMessage),
  "chat.delete": command(DeleteBody, deleteMessage),
  "chat.react": command(ReactBody, react),
  "chat.read": command(ReadBody, markRead),
};
