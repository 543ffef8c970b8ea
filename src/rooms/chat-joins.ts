import type { App } from "../app.ts";
import {
  type Admission,
  findStandings,
  admitByStanding,
  readerIdOf,
  type Standings,
} from "../domain/social/chat/access.ts";
import {
  type ChannelRef,
  findChannelIds,
  getChannelId,
  readChannel,
  showAdmitted,
} from "../domain/social/chat/channels.ts";
import { readHistories } from "../domain/social/chat/messages.ts";
import type { ChatActor, ChatChannel, ChatMessage } from "../domain/kernel/events/chat-views.ts";
import { DomainError, notFound } from "../domain/kernel/errors.ts";
import { type Grouped, grouped } from "../domain/kernel/grouped.ts";
import type { Work } from "../domain/kernel/work.ts";
import { checkPlayer, type Principal, refusalOf } from "./authenticate.ts";
import { readerOf } from "./chat-actors.ts";
import { REPLAY_MAX } from "./ordered-stream.ts";
import { transactIn } from "./project-transact.ts";

/** Maximum number of messages shown to a client that gives no `lastSeq`. */
export const HISTORY_MAX = 50;

/** The joining client, and the id or key of the channel. */
type Join = { principal: Principal; channel: string };

/**
 * Resolves the channel's id for a client that may join it; simultaneous joins share one look-up.
 * @throws DomainError NOT_FOUND, FORBIDDEN as `checkPlayer` and `readChannel`
 */
export const createChannelFinder = (app: App): Grouped<Join, string> => {
  const find = grouped<Join, string | DomainError | undefined>({
    keyOf: ({ principal }) => principal.projectId,
    run: (joins) => transactIn(app, joins[0]!.principal.projectId)((work) => findChannels(work, joins)),
  });
  return async (join) => {
    // A missing channel may be one that is created on first access.
    const found = (await find(join)) ?? (await openChannel(app, join));
    if (found instanceof DomainError) throw found;
    return found;
  };
};

const openChannel = (app: App, { principal, channel }: Join): Promise<string> =>
  transactIn(
    app,
    principal.projectId,
  )(async (work) => {
    const { projectId } = principal;
    await checkPlayer(work, principal);
    const channelId = await getChannelId(work, projectId, channel);
    return (await readChannel(work, { projectId, channelId }, readerOf(principal))).id;
  });

/** Resolves joins to channels of one project; undefined for a channel that does not exist. */
const findChannels = async (
  work: Work,
  joins: readonly Join[],
): Promise<(string | DomainError | undefined)[]> => {
  const { projectId } = joins[0]!.principal;
  const ids = await findChannelIds(
    work,
    projectId,
    joins.map(({ channel }) => channel),
  );
  const known = joins.flatMap(({ principal }, n) => {
    const channelId = ids[n];
    return channelId === undefined ? [] : [{ n, channelId, playerId: principal.playerId }];
  });
  const standings = new Map<number, Standings | undefined>();
  for (const [i, row] of (await findStandings(work, projectId, known)).entries())
    standings.set(known[i]!.n, row);
  return joins.map(({ principal }, n) => {
    const row = standings.get(n);
    if (!row) return undefined;
    const refused = principal.playerId === null ? undefined : refusalOf(row.player_status ?? undefined);
    if (refused) return refused;
    const admitted = settle(() =>
      admitByStanding(projectId, row, { actor: readerOf(principal), now: work.now }),
    );
    return admitted instanceof DomainError ? admitted : row.id;
  });
};

/**
 * Initial view of a channel for a reader; if `resumed`, `messages` are all those after the given `lastSeq`.
 */
export type ChatSnapshot = {
  channel: ChatChannel;
  messages: ChatMessage[];
  lastSeq: number;
  resumed: boolean;
};

/** A joining reader, and the newest message that they have. */
type JoiningReader = { actor: ChatActor; lastSeq: number | undefined };

/**
 * Reads the messages after `lastSeq`, or the newest ones, oldest first; simultaneous joins share one read.
 * @throws DomainError NOT_FOUND, FORBIDDEN as `readChannel`
 */
export const createChatSnapshots = (
  app: () => App,
  ref: () => ChannelRef,
): Grouped<JoiningReader, ChatSnapshot> => {
  const show = grouped<JoiningReader, ChatSnapshot | DomainError>({
    run: (all) => transactIn(app(), ref().projectId)((work) => readSnapshots(work, ref(), all)),
  });
  return async (coming) => {
    const shown = await show(coming);
    if (shown instanceof DomainError) throw shown;
    return shown;
  };
};

/** `after`: the reader's newest message, if all later ones can be replayed. */
type Reader = { admission: Admission; channel: ChatChannel; after: number | undefined };

/** Takes three statements for any number of readers. */
const readSnapshots = async (
  work: Work,
  ref: ChannelRef,
  all: readonly JoiningReader[],
): Promise<(ChatSnapshot | DomainError)[]> => {
  const asked = all.map(({ actor }) => ({ channelId: ref.channelId, playerId: readerIdOf(actor) }));
  // The channel first: messages committed in between are then extra, never missing.
  const standings = await findStandings(work, ref.projectId, asked);
  const admitted = all.map((coming, n) => settle(() => admitReader(work, ref, coming, standings[n])));
  const readers = admitted.flatMap((one) => (one instanceof DomainError ? [] : [one]));
  const messages = new Map([
    ...(await readNew(work, ref, readers)),
    ...(await readMissed(work, ref, readers)),
  ]);
  return admitted.map((reader) => {
    if (reader instanceof DomainError) return reader;
    const { channel, after } = reader;
    const own = messages.get(reader) ?? [];
    return {
      channel,
      messages: own,
      resumed: after !== undefined,
      lastSeq: own.at(-1)?.seq ?? channel.lastSeq,
    };
  });
};

const admitReader = (
  { now }: Work,
  { projectId }: ChannelRef,
  { actor, lastSeq }: JoiningReader,
  row: Standings | undefined,
): Reader => {
  if (!row) throw notFound("channel");
  const admission = admitByStanding(projectId, row, { actor, now });
  const channel = showAdmitted(admission);
  const behind = lastSeq === undefined ? -1 : channel.lastSeq - lastSeq;
  return { admission, channel, after: behind >= 0 && behind <= REPLAY_MAX ? lastSeq : undefined };
};

type Read = Map<Reader, ChatMessage[]>;

const viewersOf = (readers: readonly Reader[]) => readers.map(({ admission }) => admission.viewer);

/** Reads the newest messages, for readers who cannot resume. */
const readNew = async (
  work: Work,
  { projectId, channelId: id }: ChannelRef,
  readers: readonly Reader[],
): Promise<Read> => {
  const fresh = readers.filter(({ channel, after }) => after === undefined && channel.lastSeq > 0);
  if (fresh.length === 0) return new Map();
  const pages = await readHistories(work, { projectId, id }, viewersOf(fresh), { limit: HISTORY_MAX });
  return new Map(fresh.map((reader, n) => [reader, pages[n]!.toReversed()]));
};

/** Reads the messages that each reader missed; one page, starting with the reader who is furthest behind. */
const readMissed = async (
  work: Work,
  { projectId, channelId: id }: ChannelRef,
  readers: readonly Reader[],
): Promise<Read> => {
  const behind = readers.filter(({ channel, after }) => after !== undefined && after < channel.lastSeq);
  if (behind.length === 0) return new Map();
  const after = Math.min(...behind.map((reader) => reader.after!));
  const page = { after, limit: REPLAY_MAX };
  const pages = await readHistories(work, { projectId, id }, viewersOf(behind), page);
  return new Map(behind.map((reader, n) => [reader, pages[n]!.filter(({ seq }) => seq > reader.after!)]));
};

const settle = <T>(run: () => T): T | DomainError => {
  try {
    return run();
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
};
