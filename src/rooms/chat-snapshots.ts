import { randomUUID } from "node:crypto";
import type { App } from "../app.ts";
import { ANSWER_AGE_MS, createSizedCache } from "../domain/kernel/caches.ts";
import { type Grouped, grouped } from "../domain/kernel/flights.ts";
import { DomainError, forbidden, notFound } from "../domain/kernel/errors.ts";
import type { ChatActor, ChatChannel, ChatLine, ChatMessage } from "../domain/kernel/events/social-views.ts";
import { isId } from "../domain/kernel/ids.ts";
import type { Read } from "../domain/kernel/read.ts";
import { WEB } from "../domain/kernel/timeouts.ts";
import {
  type Admission,
  admit,
  admitByStanding,
  readerIdOf,
  readStandings,
  type Viewer,
} from "../domain/social/chat/channel-row.ts";
import {
  type ChannelRef,
  findChannelIds,
  getChannelId,
  showAdmitted,
} from "../domain/social/chat/channels.ts";
import { ANYBODY, type ChatHistory, readHistories } from "../domain/social/chat/messages.ts";
import { checkPlayer, type Principal, refusalOf } from "./authenticate.ts";
import { readIn, transactIn } from "./mirror-room.ts";
import { REPLAY_MAX } from "./ordered-stream.ts";

/** Returns the reader. Tokens of console users do not carry their role, so they may only read. */
export const readerOf = ({ playerId }: Principal): ChatActor =>
  playerId === null ? { kind: "SERVER", isModerator: false } : { kind: "PLAYER", playerId };

/** Returns the player who makes a request. @throws DomainError FORBIDDEN PLAYER_TOKEN_REQUIRED */
export const speakerOf = ({ playerId }: Principal): ChatActor => {
  if (playerId === null)
    throw forbidden("PLAYER_TOKEN_REQUIRED", "console users can only read here: use a player's token");
  return { kind: "PLAYER", playerId };
};

/** Returns the result, or the refusal that `run` throws: one of several must not fail the others. */
const settle = <T>(run: () => T): T | DomainError => {
  try {
    return run();
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
};

/** Maximum keys of channels whose ids a process remembers. */
const KEYS_MAX = 10_000;

/** The joining client, and the id or key of the channel. */
type Join = { principal: Principal; channel: string };

/** A channel as its joining reader may see it, and when that was read. It crosses processes with the seat. */
export type Admitted = { channel: ChatChannel; isModerator: boolean; atMs: number };

/**
 * Admits a client to a channel; simultaneous joins share one read.
 * @throws DomainError NOT_FOUND, FORBIDDEN as `checkPlayer` and `readChannel`
 */
export const createChannelFinder = (app: App): Grouped<Join, Admitted> => {
  const ids = createSizedCache<string>({ items: KEYS_MAX });
  const find = grouped<Join, Admitted | DomainError | undefined>({
    keyOf: ({ principal }) => principal.projectId,
    run: (joins) => findChannels(app, ids, joins),
  });
  return async (join) => {
    // A missing channel may be one that is created on first access.
    const found = (await find(join)) ?? (await openChannel(app, join));
    if (found instanceof DomainError) throw found;
    return found;
  };
};

const openChannel = (app: App, { principal, channel }: Join): Promise<Admitted> =>
  transactIn(
    app,
    principal.projectId,
  )(async (work) => {
    const { projectId } = principal;
    await checkPlayer(work, principal);
    const channelId = await getChannelId(work, projectId, channel);
    return admittedOf(await admit(work, { projectId, channelId }, readerOf(principal)), work.now);
  });

const admittedOf = (admission: Admission, readAt: Date): Admitted => ({
  channel: showAdmitted(admission),
  isModerator: admission.viewer.isModerator,
  atMs: readAt.getTime(),
});

/** Ids of channels by key, as they were when they were last looked up. */
type KnownIds = ReturnType<typeof createSizedCache<string>>;

/** Returns the ids of the channels that joins name; keys that are not remembered take one statement. */
const idsOf = async (read: Read, ids: KnownIds, joins: readonly Join[]): Promise<(string | undefined)[]> => {
  const { projectId } = joins[0]!.principal;
  const keyOf = (channel: string): string => `${projectId}:${channel}`;
  const names = joins.map(({ channel }) => ids.get(keyOf(channel)) ?? channel);
  const found = await findChannelIds(read, projectId, names);
  for (const [n, id] of found.entries())
    if (id !== undefined && names[n] === joins[n]!.channel && id !== names[n].toLowerCase())
      ids.keep(keyOf(joins[n]!.channel), id, { owner: projectId });
  return found;
};

/**
 * Admits joins to channels of one project, by one statement where their ids are known; undefined for one
 * that does not exist.
 */
const findChannels = async (
  app: App,
  ids: KnownIds,
  joins: readonly Join[],
): Promise<(Admitted | DomainError | undefined)[]> => {
  const { projectId } = joins[0]!.principal;
  const [read, now] = [readIn(app, projectId), app.clock()];
  const found = await idsOf(read, ids, joins);
  const known = joins.flatMap(({ principal }, n) => {
    const channelId = found[n];
    return channelId === undefined ? [] : [{ n, channelId, playerId: principal.playerId }];
  });
  const rows = await readStandings(read, projectId, { asked: known, now });
  const standings = new Map(rows.map((row, i) => [known[i]!.n, row]));
  return joins.map(({ principal, channel }, n) => {
    const row = standings.get(n);
    const isOther = row && !isId(channel) && row.key !== channel;
    // A key may have been given to another channel since it was remembered.
    if (isOther || !row) ids.drop(`${projectId}:${channel}`);
    if (isOther || !row) return undefined;
    const refused = principal.playerId === null ? undefined : refusalOf(row.player_status ?? undefined);
    if (refused) return refused;
    return settle(() => {
      const admission = admitByStanding(projectId, row, { actor: readerOf(principal), now });
      return admittedOf(admission, now);
    });
  });
};

/** Maximum number of messages shown to a client that gives no `lastSeq`. */
const HISTORY_MAX = 50;
/** Bytes of a message in memory beside its text, about. */
const MESSAGE_BYTES = 700;

/**
 * Initial view of a channel for a reader; if `resumed`, `messages` are all those after the given `lastSeq`.
 */
type ChatSnapshot = {
  channel: ChatChannel;
  messages: readonly ChatMessage[];
  lastSeq: number;
  resumed: boolean;
};

/**
 * A joining reader, and the newest message that they have. `admitted`: what their join has read; undefined
 * for one that has been here for a while.
 */
type JoiningReader = {
  actor: ChatActor;
  lastSeq: number | undefined;
  admitted: Admitted | undefined;
};

/** No client is shown what was read longer ago, in ms. */
const KEPT_MS = ANSWER_AGE_MS + 2 * WEB.statementMs;
/** Changes that a room keeps at most, the newest. */
const CHANGES_MAX = 10_000;

/**
 * The newest changes of messages that a room has told. Who is shown the channel is told them again: what they
 * are shown may have been read before.
 */
export class ChatChanges {
  readonly #kept: { line: ChatLine; atMs: number }[] = [];

  keep(line: ChatLine): void {
    const nowMs = performance.now();
    this.#kept.push({ line, atMs: nowMs });
    while (nowMs - this.#kept[0]!.atMs >= KEPT_MS || this.#kept.length > CHANGES_MAX) this.#kept.shift();
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
  const join = grouped<JoiningReader, Shown | DomainError>({
    run: (readers) => admitAll(read, ref(), { readers, now: app().clock() }),
  });
  const readOwn = grouped<Shown, ChatMessage[]>({ run: (readers) => readAll(read, ref(), readers) });
  // Another room's reading may lack a change that was told before this room listened.
  const owner = randomUUID();
  return async (reader) => {
    const shown = shownOf(reader, app().clock()) ?? (await join(reader));
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
const readAll = async (
  read: Read,
  { projectId, channelId: id }: ChannelRef,
  readers: readonly Shown[],
): Promise<ChatMessage[][]> => {
  const found = new Map<Shown, ChatMessage[]>();
  const behind = readers.filter(({ after }) => after !== undefined);
  const fresh = readers.filter(({ after }) => after === undefined);
  // The page of those who resume begins with the one who is furthest behind.
  const from = Math.min(...behind.map(({ after }) => after!));
  for (const [some, page] of [
    [fresh, { limit: HISTORY_MAX }],
    [behind, { after: from, limit: REPLAY_MAX }],
  ] as const) {
    if (some.length === 0) continue;
    const viewers = some.map(({ viewer }) => viewer);
    const pages = await readHistories(read, { projectId, id }, viewers, page);
    for (const [n, reader] of some.entries()) {
      const [{ after }, messages] = [reader, pages[n]!];
      found.set(
        reader,
        after === undefined ? messages.toReversed() : messages.filter(({ seq }) => seq > after),
      );
    }
  }
  return readers.map((reader) => found.get(reader)!);
};
