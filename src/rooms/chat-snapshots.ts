import { randomUUID } from "node:crypto";
import type { App } from "../app.ts";
import { admitByStanding, readerIdOf, readStandings, type Viewer } from "../domain/social/chat/access.ts";
import { type ChannelRef, showAdmitted } from "../domain/social/chat/channels.ts";
import { ANYBODY, type ChatHistory, readHistories } from "../domain/social/chat/messages.ts";
import type { ChatActor, ChatChannel, ChatLine, ChatMessage } from "../domain/kernel/events/chat-views.ts";
import { DomainError, notFound } from "../domain/kernel/errors.ts";
import { grouped } from "../domain/kernel/grouped.ts";
import type { Read } from "../domain/kernel/read.ts";
import { WEB } from "../domain/kernel/timeouts.ts";
import { ANSWER_AGE_MS } from "../domain/kernel/young-cache.ts";
import type { Admitted } from "./chat-joins.ts";
import { REPLAY_MAX } from "./ordered-stream.ts";
import { readIn } from "./project-transact.ts";
import { settle } from "./settle.ts";

/** Maximum number of messages shown to a client that gives no `lastSeq`. */
export const HISTORY_MAX = 50;
/** Bytes of a message in memory beside its text, about. */
const MESSAGE_BYTES = 700;

/**
 * Initial view of a channel for a reader; if `resumed`, `messages` are all those after the given `lastSeq`.
 */
export type ChatSnapshot = {
  channel: ChatChannel;
  messages: readonly ChatMessage[];
  lastSeq: number;
  resumed: boolean;
};

/**
 * A joining reader, and the newest message that they have. `admitted`: what their join has read; undefined
 * for one that has been here for a while.
 */
export type JoiningReader = {
  actor: ChatActor;
  lastSeq: number | undefined;
  admitted: Admitted | undefined;
};

/** No client is shown what was read longer ago, in ms. */
const KEPT_MS = ANSWER_AGE_MS + 2 * WEB.statementMs;

/**
 * The newest changes of messages that a room has told. Who is shown the channel is told them again: what they
 * are shown may have been read before.
 */
export class ChatChanges {
  #kept: { line: ChatLine; atMs: number }[] = [];

  keep(line: ChatLine): void {
    const nowMs = performance.now();
    this.#kept = this.#kept.filter(({ atMs }) => nowMs - atMs < KEPT_MS);
    this.#kept.push({ line, atMs: nowMs });
  }

  /** Returns the changes that are missing in what is shown to a client since `sinceMs`. */
  since(sinceMs: number): ChatLine[] {
    return this.#kept.filter(({ atMs }) => atMs >= sinceMs - ANSWER_AGE_MS).map(({ line }) => line);
  }
}

type Shown = { channel: ChatChannel; viewer: Viewer; after: number | undefined };

/** The seq from which on a reader's messages can be replayed; undefined if they cannot. */
const resumeAt = ({ lastSeq: head }: ChatChannel, lastSeq: number | undefined): number | undefined => {
  const behind = lastSeq === undefined ? -1 : head - lastSeq;
  return behind >= 0 && behind <= REPLAY_MAX ? lastSeq : undefined;
};

/**
 * Returns what shows the channel to joining readers: the messages after `lastSeq`, or the newest ones, oldest
 * first. What all readers see alike is read once in ANSWER_AGE_MS and for each new message; what a reader
 * alone sees is read for those who join at the same time together.
 * @throws DomainError NOT_FOUND, FORBIDDEN as `readChannel`
 */
export const createChatSnapshots = (
  app: () => App,
  ref: () => ChannelRef,
): ((reader: JoiningReader) => Promise<ChatSnapshot>) => {
  const read: Read = (statement) => readIn(app(), ref().projectId)(statement);
  const admit = grouped<JoiningReader, Shown | DomainError>({
    run: (readers) => admitAll(read, ref(), { readers, now: app().clock() }),
  });
  const readOwn = grouped<Shown, ChatMessage[]>({ run: (readers) => readAll(read, ref(), readers) });
  // Another room's reading may lack a change that was told before this room listened.
  const owner = randomUUID();
  return async (reader) => {
    const shown = shownOf(reader, app().clock()) ?? (await admit(reader));
    if (shown instanceof DomainError) throw shown;
    const { channel, after } = shown;
    const messages = (await sharedFor(app(), read, { ...ref(), owner }, shown)) ?? (await readOwn(shown));
    const lastSeq = messages.at(-1)?.seq ?? channel.lastSeq;
    return { channel, messages, resumed: after !== undefined, lastSeq };
  };
};

/** What the join has read, if that was just now. */
const shownOf = ({ actor, lastSeq, admitted }: JoiningReader, now: Date): Shown | undefined => {
  if (!admitted || now.getTime() - admitted.atMs > ANSWER_AGE_MS) return undefined;
  const { channel, isModerator } = admitted;
  const viewer = { playerId: readerIdOf(actor), isModerator };
  return { channel, viewer, after: resumeAt(channel, lastSeq) };
};

/** Admits readers by one statement. */
const admitAll = async (
  read: Read,
  { projectId, channelId }: ChannelRef,
  { readers, now }: { readers: readonly JoiningReader[]; now: Date },
): Promise<(Shown | DomainError)[]> => {
  const asked = readers.map(({ actor }) => ({ channelId, playerId: readerIdOf(actor) }));
  const standings = await readStandings(read, projectId, { asked, now });
  return readers.map(({ actor, lastSeq }, n) =>
    settle(() => {
      const row = standings[n];
      if (!row) throw notFound("channel");
      const admission = admitByStanding(projectId, row, { actor, now });
      const channel = showAdmitted(admission);
      return { channel, viewer: admission.viewer, after: resumeAt(channel, lastSeq) };
    }),
  );
};

/** Returns the messages for a reader who sees what everybody does; undefined for any other. */
const sharedFor = async (
  app: App,
  read: Read,
  { projectId, channelId, owner }: ChannelRef & { owner: string },
  shown: Shown,
): Promise<readonly ChatMessage[] | undefined> => {
  const { lastSeq } = shown.channel;
  if (lastSeq === 0 || shown.after === lastSeq) return [];
  if (shown.viewer.isModerator) return undefined;
  const { value } = await app.chatHistories.get(
    { projectId, owner: projectId, key: `${owner}:${lastSeq}` },
    { isFresh: false, make: () => readShared(read, { projectId, channelId }) },
  );
  return partOf(value, shown);
};

/** Returns the part of a history that a reader is shown; undefined where it is not theirs, or not enough. */
const partOf = (
  { messages, senders, hasReactions }: ChatHistory,
  { viewer: { playerId }, after }: Shown,
): readonly ChatMessage[] | undefined => {
  if (playerId !== null && (hasReactions || senders.has(playerId))) return undefined;
  if (after === undefined) return messages;
  const isWhole = (messages[0]?.seq ?? Infinity) <= after + 1;
  return isWhole ? messages.filter(({ seq }) => seq > after) : undefined;
};

const readShared = async (
  read: Read,
  { projectId, channelId: id }: ChannelRef,
): Promise<{ value: ChatHistory; bytes: number }> => {
  const [page] = await readHistories(read, { projectId, id }, [ANYBODY], { limit: HISTORY_MAX });
  const messages = page!.toReversed();
  const senders = new Set(messages.flatMap(({ sender }) => sender?.playerId ?? []));
  const hasReactions = messages.some(({ reactions }) => reactions.length > 0);
  const bytes = messages.reduce((sum, { content }) => sum + 2 * content.length + MESSAGE_BYTES, 0);
  return { value: { messages, senders, hasReactions }, bytes };
};

/** Reads messages as each reader sees them: one statement for those who resume, one for the others. */
const readAll = async (read: Read, ref: ChannelRef, readers: readonly Shown[]): Promise<ChatMessage[][]> => {
  const found = new Map([...(await readNew(read, ref, readers)), ...(await readMissed(read, ref, readers))]);
  return readers.map((reader) => found.get(reader) ?? []);
};

const viewersOf = (readers: readonly Shown[]) => readers.map(({ viewer }) => viewer);

type Found = Map<Shown, ChatMessage[]>;

/** Reads the newest messages, for readers who cannot resume. */
const readNew = async (
  read: Read,
  { projectId, channelId: id }: ChannelRef,
  readers: readonly Shown[],
): Promise<Found> => {
  const fresh = readers.filter(({ after }) => after === undefined);
  if (fresh.length === 0) return new Map();
  const pages = await readHistories(read, { projectId, id }, viewersOf(fresh), { limit: HISTORY_MAX });
  return new Map(fresh.map((reader, n) => [reader, pages[n]!.toReversed()]));
};

/** Reads the messages that each reader missed; one page, starting with the reader who is furthest behind. */
const readMissed = async (
  read: Read,
  { projectId, channelId: id }: ChannelRef,
  readers: readonly Shown[],
): Promise<Found> => {
  const behind = readers.filter(({ after }) => after !== undefined);
  if (behind.length === 0) return new Map();
  const after = Math.min(...behind.map((reader) => reader.after!));
  const page = { after, limit: REPLAY_MAX };
  const pages = await readHistories(read, { projectId, id }, viewersOf(behind), page);
  return new Map(behind.map((reader, n) => [reader, pages[n]!.filter(({ seq }) => seq > reader.after!)]));
};
