import { type RawBuilder, sql } from "kysely";
import { DomainError, forbidden, invalid } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import { isModeratorRole, type Viewer } from "./access.ts";
import type { ChannelRef } from "./channel-row.ts";
import { checkAuthor, type ModerationScope, passText, type Passed, type Author } from "./moderating.ts";
import type { Screening } from "./moderation/moderate.ts";
import { MENTIONS_MAX, mentionedIn, resolveMentions } from "./mentions.ts";
import { tombstoneOf } from "./message-view.ts";
import {
  clientKey,
  type ChatContext,
  type ContextPerson,
  type ContextQuestion,
  type ContextSender,
} from "./context.ts";
import { namesEveryone } from "./text.ts";
import type { ChatActor, ChatLine, ChatMessage, ChatSend } from "../../kernel/events/chat-views.ts";

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

const playerOf = (actor: ChatActor): string | null => (actor.kind === "PLAYER" ? actor.playerId : null);

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
export const decide = (
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
export const linesOf = ({ message, verdict }: Accepted): ChatLine[] => {
  const { clientMsgId: _, ...shown } = message;
  if (!verdict.isShadowed && verdict.outcome !== "HELD") return [{ name: "chat.message", data: shown }];
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
