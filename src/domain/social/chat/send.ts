import { sql } from "kysely";
import { DomainError, forbidden, invalid } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { unansweredKept } from "../../kernel/statements.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import { isModeratorRole, isPrivate, type Viewer } from "./access.ts";
import type { Channel, ChannelRef } from "./channel-row.ts";
import {
  checkAuthor,
  type ModerationScope,
  openModeration,
  passText,
  type Passed,
  type Author,
} from "./moderating.ts";
import type { Screening } from "./moderation/moderate.ts";
import { lockMentioned, MENTIONS_MAX, mentionedIn, resolveMentions, notifyMentioned } from "./mentions.ts";
import { readRows, showMessage, tombstoneOf } from "./message-view.ts";
import {
  clientKey,
  lockContext,
  type ChatContext,
  type ContextPerson,
  type ContextQuestion,
  type ContextSender,
} from "./context.ts";
import { namesEveryone } from "./text.ts";
import type { ChatActor, ChatLine, ChatMessage, ChatSend } from "../../kernel/events/chat-views.ts";

/** One send of a group; `screening` is what `prepareText` returned for its text. */
export type Sending = { actor: ChatActor; send: ChatSend; screening?: Screening | undefined };
/** Its outcome: the message as its sender sees it (the earlier one, for a duplicate), or the error. */
export type Sent = { message: ChatMessage; isDuplicate: boolean } | { error: DomainError };

/** An accepted message before it is written. */
type Accepted = {
  /** As its sender sees it. */
  message: ChatMessage;
  verdict: Passed & { text: string };
  people: readonly ContextPerson[];
  isForEveryone: boolean;
};

/** Outcome of a send: a new message, an earlier one by its seq, one of this group, or a refusal. */
type Decision =
  | { accepted: Accepted; isDuplicate: boolean }
  | { knownSeq: number; viewer: Viewer }
  | { error: DomainError };

const playerOf = (actor: ChatActor): string | null => (actor.kind === "PLAYER" ? actor.playerId : null);

const questionOf = (sendings: readonly Sending[]): ContextQuestion => {
  const ids = new Set<string>();
  const names = new Set<string>();
  const replies = new Set<number>();
  for (const { send } of sendings) {
    for (const id of send.mentions?.slice(0, MENTIONS_MAX) ?? []) if (isId(id)) ids.add(id);
    for (const name of mentionedIn(send.content)) names.add(name);
    if (send.replyTo !== undefined) replies.add(send.replyTo);
  }
  return {
    senders: sendings.map(({ actor, send }) => ({
      playerId: playerOf(actor),
      clientMsgId: send.clientMsgId,
    })),
    replies: [...replies],
    mentionedIds: [...ids],
    mentionedNames: [...names],
  };
};

type Deciding = { scope: ModerationScope; context: ChatContext; lastSeq: number };

const checkEveryone = (scope: ModerationScope, { actor, sender }: Author, content: string): boolean => {
  if (!namesEveryone(content)) return false;
  if (actor.kind === "PLAYER" && !isModeratorRole(sender?.role ?? null)) return false;
  if (scope.channel.settings.mentions !== "ALL")
    throw forbidden("CHANNEL_RESTRICTED", "nobody may mention @everyone in this channel");
  return true;
};

const shownSender = (sender: ContextSender | undefined): ChatMessage["sender"] => {
  if (!sender) return null;
  const { id: playerId, externalUserId, displayName, role } = sender;
  return { playerId, externalUserId, displayName, role: role ?? "MEMBER" };
};

/** @throws DomainError for a refused send */
const accept = ({ scope, context, lastSeq }: Deciding, { actor, send, screening }: Sending): Accepted => {
  const sender = actor.kind === "PLAYER" ? context.senders.get(actor.playerId) : undefined;
  const author: Author = { actor, sender };
  checkAuthor(scope, author);
  if (sender && !context.isDirectAllowed)
    throw forbidden("CHANNEL_RESTRICTED", "direct messages are disabled in this project");
  const verdict = passText(scope, author, send.content, screening);
  const { replyTo = null } = send;
  // A message of this very group has no stored seq yet: its sender cannot know it.
  if (replyTo !== null && !context.replies.has(replyTo)) throw invalid("replyTo", "there is no such message");
  const people = resolveMentions(context, scope.channel, send);
  const message: ChatMessage = {
    id: newId(),
    channelId: scope.channel.id,
    seq: lastSeq + 1,
    sender: shownSender(sender),
    type: sender ? "TEXT" : "SYSTEM",
    content: verdict.content,
    mentions: people.map(({ id }) => id),
    replyTo,
    reactions: [],
    moderation: verdict.outcome,
    editedAt: null,
    deletedAt: null,
    createdAt: scope.now.toISOString(),
    ...(send.clientMsgId === undefined ? {} : { clientMsgId: send.clientMsgId }),
  };
  return { message, verdict, people, isForEveryone: checkEveryone(scope, author, send.content) };
};

/** Decides in order, in slices; a refused send takes no seq. */
const decide = (
  scope: ModerationScope,
  context: ChatContext,
  sendings: readonly Sending[],
): Promise<Decision[]> => {
  const fresh = new Map<string, Accepted>();
  let { lastSeq } = scope.channel;
  return mapInSlices(sendings, (sending): Decision => {
    const { actor, send } = sending;
    const playerId = playerOf(actor);
    const key =
      send.clientMsgId === undefined ? undefined : clientKey(scope.channel.id, playerId, send.clientMsgId);
    const knownSeq = key === undefined ? undefined : context.known.get(key);
    // The sender of an earlier message repeats its id.
    if (knownSeq !== undefined) return { knownSeq, viewer: { playerId, isModerator: playerId === null } };
    const twin = key === undefined ? undefined : fresh.get(key);
    if (twin) return { accepted: twin, isDuplicate: true };
    try {
      const accepted = accept({ scope, context, lastSeq }, sending);
      lastSeq++;
      if (key !== undefined) fresh.set(key, accepted);
      return { accepted, isDuplicate: false };
    } catch (error) {
      if (error instanceof DomainError) return { error };
      throw error;
    }
  });
};

/** Returns the lines for readers: the message, or its placeholder and the message for its sender alone. */
const linesOf = ({ message, verdict }: Accepted): ChatLine[] => {
  const { clientMsgId: _, ...shown } = message;
  if (!verdict.isShadowed && verdict.outcome !== "HELD") return [{ name: "chat.message", data: shown }];
  const tombstone: ChatLine = { name: "chat.message", data: tombstoneOf(message, verdict.isShadowed) };
  if (message.sender === null) return [tombstone];
  return [tombstone, { name: "chat.message", data: message, forPlayer: message.sender.playerId }];
};

/** Writes the rows and the channel's counters in one statement. */
const write = async ({ db, now }: Work, channel: Channel, accepted: readonly Accepted[]): Promise<void> => {
  const { projectId, id } = channel;
  const at = sql`${now.toISOString()}::timestamptz`;
  const rows = accepted.map(({ message, verdict, isForEveryone }) => ({
    s: message.seq,
    i: message.id,
    p: message.sender?.playerId ?? null,
    t: message.type,
    c: message.content,
    o: verdict.content === verdict.text ? null : verdict.text,
    m: message.mentions,
    r: message.replyTo,
    k: message.clientMsgId ?? null,
    v: message.moderation,
    f: isForEveryone ? [...verdict.flags, EVERYONE_FLAG] : verdict.flags,
    h: verdict.isShadowed,
  }));
  await unansweredKept(
    db,
    sql`
    with c as (
      update chat_channels set last_seq = ${channel.lastSeq + rows.length}::bigint, updated_at = ${at}
      where project_id = ${projectId} and id = ${id})
    insert into chat_messages (project_id, channel_id, seq, id, sender_id, type, content, original, mentions,
      reply_to, client_msg_id, moderation, flags, is_shadowed, created_at)
    select ${projectId}::uuid, ${id}::uuid, r.s, r.i, r.p, r.t, r.c, r.o, r.m, r.r, r.k, r.v, r.f, r.h, ${at}
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(s bigint, i uuid, p uuid, t text, c text,
      o text, m uuid[], r bigint, k text, v text, f text[], h boolean)`,
  );
};

/** Flag of a message that a moderator has addressed to everybody. */
const EVERYONE_FLAG = "everyone";

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
 * @returns outcomes in order, and the lines for the channel's readers once the commit is durable
 * @throws FilterUnready as `openModeration` does
 */
export const sendMessages = async (
  work: Work,
  ref: ChannelRef,
  sendings: readonly Sending[],
  areReadersTold = false,
): Promise<{ sent: Sent[]; lines: ChatLine[] }> => {
  const question = questionOf(sendings);
  const locked = await lockMentioned(work, ref.projectId, question);
  const context = await lockContext(work, ref, question);
  const { channel } = context;
  const scope = await openModeration(work, context);
  const decisions = await decide(scope, context, sendings);
  const known = await readKnown(work, channel, decisions);
  const accepted = decisions.flatMap((one) => ("accepted" in one && !one.isDuplicate ? [one.accepted] : []));
  if (accepted.length > 0) await write(work, channel, accepted);
  const lines = emitMessages(work, context, accepted, areReadersTold);
  const open = accepted.filter(({ verdict }) => !verdict.isShadowed && verdict.outcome !== "HELD");
  await notifyMentioned(work, channel, { mentionings: open, locked });
  const sent = decisions.map((one): Sent => {
    if ("error" in one) return one;
    if ("knownSeq" in one) return { message: known(one.knownSeq, one.viewer), isDuplicate: true };
    return { message: one.accepted.message, isDuplicate: one.isDuplicate };
  });
  return { sent, lines };
};
