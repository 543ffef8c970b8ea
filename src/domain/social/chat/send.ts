import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { unansweredKept } from "../../kernel/statements.ts";
import { isPrivate, type Viewer } from "./access.ts";
import type { Channel, ChannelRef } from "./channel-row.ts";
import { openModeration } from "./moderating.ts";
import { lockMentioned, notifyMentioned } from "./mentions.ts";
import { readRows, showMessage } from "./message-view.ts";
import { lockContext, type ChatContext } from "./context.ts";
import {
  type Accepted,
  decide,
  type Decision,
  insertMessages,
  linesOf,
  newOf,
  questionOf,
  type Sending,
  type Sent,
} from "./send-decisions.ts";
import type { ChatLine, ChatMessage } from "../../kernel/events/chat-views.ts";

/** Writes the rows and the channel's counters in one statement. */
const write = async ({ db, now }: Work, channel: Channel, accepted: readonly Accepted[]): Promise<void> => {
  const { projectId, id, lastSeq } = channel;
  const at = sql`${now.toISOString()}::timestamptz`;
  const follow = { at, lastSeq: sql`${lastSeq}::bigint`, where: sql`true` };
  await unansweredKept(
    db,
    sql`
    with c as (
      update chat_channels set last_seq = ${lastSeq + accepted.length}::bigint, updated_at = ${at}
      where project_id = ${projectId} and id = ${id})
    ${insertMessages({ projectId, channelId: id }, accepted, follow)}`,
  );
};

/**
 * Emits events: webhooks get what every player may read, and only the channel's readers the rest. Rows have
 * the messages' ids, by which they are found when a text must be erased. What nobody waits for is not emitted
 * if the caller tells the readers.
 */
const emitMessages = (
  work: Work,
  { channel, isAwaited }: ChatContext,
  accepted: readonly Accepted[],
  areReadersTold: boolean,
): ChatLine[] => {
  const { projectId, id } = channel;
  const published: ChatLine[] = [];
  for (const one of accepted) {
    const lines = linesOf(one);
    published.push(...lines);
    const [first] = lines;
    const isForAll = lines.length === 1 && one.verdict.outcome !== "HELD" && !isPrivate(channel);
    if (isForAll && first!.name === "chat.message") {
      if (isAwaited || !areReadersTold)
        work.emit(projectId, "chat.message_sent", first!.data, { id: one.message.id });
    } else if (!areReadersTold)
      work.emit(projectId, "chat.changed", { channelId: id, lines }, { id: one.message.id });
    emitModerated(work, projectId, one);
  }
  return published;
};

const emitModerated = (work: Work, projectId: string, { message, verdict }: Accepted): void => {
  const { outcome: action, flags, isShadowed } = verdict;
  if (action === "VISIBLE" || isShadowed) return;
  const { channelId, seq } = message;
  work.emit(projectId, "chat.message_moderated", { channelId, seq, action, by: "AUTO", flags });
};

/** Reads the earlier messages of duplicates, as each sender sees them. */
const readKnown = async (
  work: Work,
  channel: Channel,
  decisions: readonly Decision[],
): Promise<(seq: number, viewer: Viewer) => ChatMessage> => {
  const seqs = decisions.flatMap((one) => ("knownSeq" in one ? [one.knownSeq] : []));
  const rows =
    seqs.length === 0
      ? []
      : await readRows(
          work,
          channel,
          { playerId: null, isModerator: true },
          sql`m.seq = any(${`{${seqs.join(",")}}`}::bigint[])`,
        );
  const bySeq = new Map(rows.map((row) => [Number(row.seq), row]));
  return (seq, viewer) => showMessage(channel.id, bySeq.get(seq)!, viewer);
};

/**
 * Commits a group of sends to one channel, in as many statements for 200 as for one: seqs without gaps, in
 * the given order. A refused send takes no seq and does not affect the others.
 * @param areReadersTold whether the caller publishes the returned lines: then one that no webhook and no
 *   reader of the feed waits for leaves no work to the relay
 * @returns outcomes in order, the lines for the channel's readers once the commit is durable, and what the
 *   sends were decided by
 * @throws FilterUnready as `openModeration` does
 */
export const sendMessages = async (
  work: Work,
  ref: ChannelRef,
  sendings: readonly Sending[],
  areReadersTold = false,
): Promise<{ sent: Sent[]; lines: ChatLine[]; context: ChatContext }> => {
  const question = questionOf(sendings);
  const locked = await lockMentioned(work, ref.projectId, question);
  const context = await lockContext(work, ref, question);
  const { channel } = context;
  const scope = await openModeration(work, context);
  const decisions = await decide(scope, context, sendings);
  const known = await readKnown(work, channel, decisions);
  const accepted = newOf(decisions);
  if (accepted.length > 0) await write(work, channel, accepted);
  const lines = emitMessages(work, context, accepted, areReadersTold);
  const open = accepted.filter(({ verdict }) => !verdict.isShadowed && verdict.outcome !== "HELD");
  await notifyMentioned(work, channel, { mentionings: open, locked });
  const sent = decisions.map((one): Sent => {
    if ("error" in one) return one;
    if ("knownSeq" in one) return { message: known(one.knownSeq, one.viewer), isDuplicate: true };
    return { message: one.accepted.message, isDuplicate: one.isDuplicate };
  });
  return { sent, lines, context };
};
