import { sql } from "kysely";
import type { Read } from "../../kernel/read.ts";
import type { Work } from "../../kernel/work.ts";
import { admit, type Viewer } from "./access.ts";
import { auditPrivateRead } from "./audit-chat.ts";
import type { Channel, ChannelRef } from "./channel-row.ts";
import {
  type MessageRow,
  readRows,
  readSharedRows,
  rowFor,
  type SharedRow,
  showMessage,
} from "./message-view.ts";
import type { ChatActor, ChatMessage } from "../../kernel/events/chat-views.ts";

export { sendMessages } from "./send.ts";
export type { Sending, Sent } from "./send-decisions.ts";

export type HistoryQuery = {
  /** Messages before or after this seq; without either, the newest. */
  before?: number | undefined;
  after?: number | undefined;
  limit: number;
};

/** Reads messages of a channel as `actor` may see them: newest first, with `after` oldest first. */
export const readMessages = async (
  work: Work,
  ref: ChannelRef,
  actor: ChatActor,
  query: HistoryQuery,
): Promise<ChatMessage[]> => {
  const { channel, viewer } = await admit(work, ref, actor);
  const messages = await readHistory(work, channel, viewer, query);
  const seqs = messages.map(({ seq }) => seq);
  const span = seqs.length === 0 ? {} : { fromSeq: Math.min(...seqs), toSeq: Math.max(...seqs) };
  await auditPrivateRead(work, channel, { actor, what: "messages", ...span });
  return messages;
};

const rangeOf = ({ before, after, limit }: HistoryQuery) => {
  if (after === undefined)
    return sql`${before === undefined ? sql`true` : sql`m.seq < ${before}::bigint`}
      order by m.seq desc limit ${limit}`;
  return sql`m.seq > ${after}::bigint ${before === undefined ? sql`` : sql`and m.seq < ${before}::bigint`}
    order by m.seq limit ${limit}`;
};

/** As `readMessages`, for an admitted reader. */
export const readHistory = async (
  work: Work,
  channel: Pick<Channel, "projectId" | "id">,
  viewer: Viewer,
  query: HistoryQuery,
): Promise<ChatMessage[]> => {
  const rows: MessageRow[] = await readRows(work, channel, viewer, rangeOf(query));
  return rows.map((row) => showMessage(channel.id, row, viewer));
};

/** Sees of each message what every reader may see. */
export const ANYBODY: Viewer = { playerId: null, isModerator: false };

/** The newest messages of a channel as everybody sees them, oldest first. */
export type ChatHistory = {
  messages: readonly ChatMessage[];
  /** Players who see some of them in another way, because they sent them. */
  senders: ReadonlySet<string>;
  /** Whether there are reactions, of which each player sees their own. */
  hasReactions: boolean;
};

/** As `readHistory` for many in one statement; in the order of `viewers`. */
export const readHistories = async (
  read: Read,
  channel: Pick<Channel, "projectId" | "id">,
  viewers: readonly Viewer[],
  query: HistoryQuery,
): Promise<ChatMessage[][]> => {
  const playerIds = new Set(viewers.flatMap(({ playerId }) => playerId ?? []));
  const rows = await readSharedRows(read, channel, [...playerIds], rangeOf(query));
  const show = (row: SharedRow, viewer: Viewer) => showMessage(channel.id, rowFor(row, viewer), viewer);
  // Most viewers see the common form, which is built once.
  const common = rows.map((row) => show(row, ANYBODY));
  const own = rows.map(
    ({ sender_id: senderId, reactions }) =>
      new Set([...(senderId === null ? [] : [senderId]), ...(reactions ?? []).flatMap(({ by }) => by)]),
  );
  return viewers.map((viewer) =>
    rows.map((row, n) => {
      const isSpecial = viewer.isModerator || (viewer.playerId !== null && own[n]!.has(viewer.playerId));
      return isSpecial ? show(row, viewer) : common[n]!;
    }),
  );
};

/** Returns the newest seq of many channels in one statement, by channel id; deleted ones are absent. */
export const readLastSeqs = async (
  { db }: Work,
  refs: readonly ChannelRef[],
): Promise<Map<string, number>> => {
  if (refs.length === 0) return new Map();
  const asked = refs.map(({ projectId, channelId }) => ({ p: projectId, c: channelId }));
  const found = await sql<{ id: string; last_seq: string | number }>`
    select c.id, c.last_seq from json_to_recordset(${JSON.stringify(asked)}::json) as r(p uuid, c uuid)
    join chat_channels c on c.project_id = r.p and c.id = r.c`.execute(db);
  return new Map(found.rows.map((row) => [row.id, Number(row.last_seq)]));
};
