import { type RawBuilder, sql } from "kysely";
import { DomainError, forbidden, invalid } from "../../kernel/errors.ts";
import type { ChatActor, ChatLine, ChatMessage, ChatSend } from "../../kernel/events/social-views.ts";
import { isId, newId } from "../../kernel/ids.ts";
import type { Read } from "../../kernel/read.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import { unansweredKept } from "../../kernel/statements.ts";
import type { Work } from "../../kernel/work.ts";
import {
  admit,
  type Channel,
  type ChannelRef,
  isModeratorRole,
  isPrivate,
  readerIdOf,
  type Viewer,
} from "./channel-row.ts";
import {
  type Author,
  type ChatContext,
  checkAuthor,
  clientKey,
  type ContextPerson,
  type ContextQuestion,
  type ContextSender,
  lockContext,
  type ModerationScope,
  namesEveryone,
  openModeration,
  type Passed,
  passText,
} from "./context.ts";
import { lockMentioned, mentionedIn, notifyMentioned, resolveMentions } from "./mentions.ts";
import {
  auditPrivateRead,
  type MessageRow,
  readRows,
  readSharedRows,
  rowFor,
  type SharedRow,
  showMessage,
  tombstoneOf,
} from "./message-view.ts";
import type { Screening } from "./moderation/moderate.ts";
import { MENTIONS_MAX } from "./moderation/filters.ts";

/** Flag of a message that a moderator has addressed to everybody. */
const EVERYONE_FLAG = "everyone";

/** One send of a group; `screening` is what `prepareText` returned for its text. */
export type Sending = { actor: ChatActor; send: ChatSend; screening?: Screening | undefined };
/** Its outcome: the message as its sender sees it (the earlier one, for a duplicate), or the error. */
export type Sent = { message: ChatMessage; isDuplicate: boolean } | { error: DomainError };

/** An accepted message before it is written. */
export type Accepted = {
  /** As its sender sees it. */
  message: ChatMessage;
  verdict: Passed & { text: string };
  people: readonly ContextPerson[];
  isForEveryone: boolean;
};

/** Outcome of a send: a new message, an earlier one by its seq, one of this group, or a refusal. */
export type Decision =
  | { accepted: Accepted; isDuplicate: boolean }
  | { knownSeq: number; viewer: Viewer }
  | { error: DomainError };

/** Returns the messages that have to be written. */
export const newOf = (decisions: readonly Decision[]): Accepted[] =>
  decisions.flatMap((one) => ("accepted" in one && !one.isDuplicate ? [one.accepted] : []));

/** Returns the outcomes, given how a sender sees a message of before. */
export const sentOf = (
  decisions: readonly Decision[],
  known: (seq: number, viewer: Viewer) => ChatMessage,
): Sent[] =>
  decisions.map((one) => {
    if ("error" in one) return one;
    if ("knownSeq" in one) return { message: known(one.knownSeq, one.viewer), isDuplicate: true };
    return { message: one.accepted.message, isDuplicate: one.isDuplicate };
  });

/** Whether every reader of the channel sees what was accepted. */
const isShown = ({ verdict }: Accepted): boolean => !verdict.isShadowed && verdict.outcome !== "HELD";

/** What must be known to decide about sends. */
export const questionOf = (sendings: readonly Sending[]): ContextQuestion => {
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
      playerId: readerIdOf(actor),
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
export const decide = (
  scope: ModerationScope,
  context: ChatContext,
  sendings: readonly Sending[],
): Promise<Decision[]> => {
  const fresh = new Map<string, Accepted>();
  let { lastSeq } = scope.channel;
  return mapInSlices(sendings, (sending): Decision => {
    const { actor, send } = sending;
    const playerId = readerIdOf(actor);
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
export const linesOf = (one: Accepted): ChatLine[] => {
  const { message, verdict } = one;
  const { clientMsgId: _, ...shown } = message;
  if (isShown(one)) return [{ name: "chat.message", data: shown }];
  const tombstone: ChatLine = { name: "chat.message", data: tombstoneOf(message, verdict.isShadowed) };
  if (message.sender === null) return [tombstone];
  return [tombstone, { name: "chat.message", data: message, forPlayer: message.sender.playerId }];
};

/** Returns the rows of accepted messages, for `insertMessages`. */
const rowsOf = (accepted: readonly Accepted[]) =>
  accepted.map(({ message, verdict, isForEveryone }, n) => ({
    s: n + 1,
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

/** SQL: inserts accepted messages, in the order of their seqs, which follow on `lastSeq`. */
export const insertMessages = (
  { projectId, channelId }: ChannelRef,
  accepted: readonly Accepted[],
  {
    at,
    lastSeq,
    where,
  }: { at: RawBuilder<unknown>; lastSeq: RawBuilder<unknown>; where: RawBuilder<unknown> },
): RawBuilder<unknown> => sql`
  insert into chat_messages (project_id, channel_id, seq, id, sender_id, type, content, original, mentions,
    reply_to, client_msg_id, moderation, flags, is_shadowed, created_at)
  select ${projectId}::uuid, ${channelId}::uuid, ${lastSeq} + r.s, r.i, r.p, r.t, r.c, r.o, r.m, r.r, r.k,
    r.v, r.f, r.h, ${at}
  from json_to_recordset(${JSON.stringify(rowsOf(accepted))}::json) as r(s bigint, i uuid, p uuid, t text,
    c text, o text, m uuid[], r bigint, k text, v text, f text[], h boolean)
  where ${where}`;

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
    const isForAll = isShown(one) && !isPrivate(channel);
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
  const bySeq = new Map(rows.map((row) => [row.seq, row]));
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
  await notifyMentioned(work, channel, { mentionings: accepted.filter(isShown), locked });
  return { sent: sentOf(decisions, known), lines, context };
};

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
  const found = await sql<{ id: string; last_seq: number }>`
    select c.id, c.last_seq from json_to_recordset(${JSON.stringify(asked)}::json) as r(p uuid, c uuid)
    join chat_channels c on c.project_id = r.p and c.id = r.c`.execute(db);
  return new Map(found.rows.map((row) => [row.id, row.last_seq]));
};
