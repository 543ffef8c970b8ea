import type { App } from "../app.ts";
import { admit, admitByStanding, type Admission, readStandings } from "../domain/social/chat/access.ts";
import { findChannelIds, getChannelId, showAdmitted } from "../domain/social/chat/channels.ts";
import type { ChatChannel } from "../domain/kernel/events/chat-views.ts";
import { DomainError } from "../domain/kernel/errors.ts";
import { type Grouped, grouped } from "../domain/kernel/grouped.ts";
import { isId } from "../domain/kernel/ids.ts";
import type { Read } from "../domain/kernel/read.ts";
import { createSizedCache } from "../domain/kernel/sized-cache.ts";
import { checkPlayer, type Principal, refusalOf } from "./authenticate.ts";
import { readerOf } from "./chat-actors.ts";
import { settle } from "./settle.ts";
import { readIn, transactIn } from "./project-transact.ts";

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
