import { schema, type SchemaType, t } from "@colyseus/schema";
import { z } from "zod";
import type {
  ChannelStatus,
  ChatChannel,
  ChatMessage,
  ChatLine,
} from "../domain/kernel/events/chat-views.ts";

/** State that every client of the room sees without a request. Messages travel as messages, not as state. */
export const ChatState = schema(
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
export type ChatState = SchemaType<typeof ChatState>;

export const JoinOptions = z.object({
  channelId: z.string().min(1).max(64).describe("The channel's id, or the key of a PROJECT channel"),
  lastSeq: z.int().min(0).optional(),
});
export const ResyncBody = z.object({ lastSeq: z.int().min(0) });
export const RoomOptions = z.object({
  projectId: z.uuid(),
  tenantId: z.uuid().optional(),
  channelId: z.uuid(),
});

/** Returns the part of the state that follows from the channel's row. */
export const stateOf = ({ id, kind, key, name, status, settings, lastSeq }: ChatChannel) => ({
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
export type Item = {
  seq: number;
  message: ChatMessage | undefined;
  own?: { playerId: string; message: ChatMessage };
};

/**
 * Groups `lines` into messages by seq. A held message has two lines: one for its sender, one for the others.
 */
export const itemsOf = (lines: readonly ChatLine[]): Item[] => {
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
