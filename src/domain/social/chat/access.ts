import { type RawBuilder, sql } from "kysely";
import { forbidden, notFound } from "../../kernel/errors.ts";
import type { PlayerStatus } from "../../players/player.ts";
import { type Read, readWithin, statementOf } from "../../kernel/read.ts";
import type { Work } from "../../kernel/work.ts";
import { type Channel, channelOf, type ChannelRef, type ChannelRow, foundOrGlobal } from "./channel-row.ts";
import {
  CHANNEL_PRIVACY,
  type ChannelKind,
  type ChatActor,
  type ChatRole,
  type Notify,
} from "../../kernel/events/chat-views.ts";

/** How long members may read the channel of a closed lobby, in ms: 10 minutes. */
export const CLOSED_READABLE_MS = 600_000;

/** A reader, who determines how messages are shown. */
export type Viewer = { playerId: string | null; isModerator: boolean };

/** A channel with its reader's role and state in it. */
export type Admission = {
  channel: Channel;
  viewer: Viewer;
  role: ChatRole;
  notify: Notify;
  lastReadSeq: number;
};

/** Inputs of `isMember`. */
export type Standing = { kind: ChannelKind; closedMs: number | null; isListed: boolean; isInLobby: boolean };

/**
 * Whether a player belongs to a channel: to PROJECT everybody, to LOBBY the lobby's members (after it has
 * closed, those at that time, for 10 minutes), to others the listed members.
 */
export const isMember = ({ kind, closedMs, isListed, isInLobby }: Standing, nowMs: number): boolean => {
  if (kind === "PROJECT") return true;
  if (kind !== "LOBBY") return isListed;
  if (closedMs === null) return isInLobby;
  return isListed && nowMs < closedMs + CLOSED_READABLE_MS;
};

export const isModeratorRole = (role: ChatRole | null): boolean => role === "OWNER" || role === "MODERATOR";

/** A channel's row with a player's state in it. */
export type Standings = ChannelRow & {
  player_status: PlayerStatus | null;
  role: ChatRole | null;
  notify: Notify | null;
  last_read_seq: string | number | null;
  is_listed: boolean;
  is_in_lobby: boolean;
  is_banned: boolean;
};

/** A player in a channel; null: no particular player. */
export type PlayerInChannel = { channelId: string; playerId: string | null };

/**
 * Selects the standings requested by `rows`: numbers, channels and players. `project` is that of a row `r`.
 */
const standings = (project: RawBuilder<unknown>, rows: readonly object[], now: Date) => sql<
  Standings & { n: number }
>`
  select r.n, c.id, c.kind, c.key, c.name, c.lobby_id, c.settings, c.status, c.last_seq, c.read_only_at,
    c.created_at, p.status as player_status, m.role, m.notify, m.last_read_seq,
    (m.player_id is not null and m.left_at is null) as is_listed,
    l.player_id is not null as is_in_lobby,
    exists (select 1 from chat_sanctions s where s.project_id = c.project_id
      and s.player_id = r.p and s.kind = 'BAN' and s.revoked_at is null
      and (s.channel_id is null or s.channel_id = c.id)
      and (s.expires_at is null or s.expires_at > ${now.toISOString()}::timestamptz)) as is_banned
  from json_to_recordset(${JSON.stringify(rows)}::json) as r(n int, j uuid, c uuid, p uuid)
  join chat_channels c on c.project_id = ${project} and c.id = r.c
  left join players p on p.project_id = ${project} and p.id = r.p
  left join chat_members m on m.project_id = ${project} and m.channel_id = c.id and m.player_id = r.p
  left join lobby_members l on l.project_id = ${project} and l.lobby_id = c.lobby_id
    and l.player_id = r.p and l.is_active`;

/** Reads them in the requested order, in one statement; undefined where there is no such channel. */
const inOrder = async (
  read: Read,
  count: number,
  statement: RawBuilder<Standings & { n: number }>,
): Promise<(Standings | undefined)[]> => {
  if (count === 0) return [];
  const rows = await read<Standings & { n: number }>(statementOf(statement));
  const byNumber = new Map(rows.map((row) => [row.n, row]));
  return Array.from({ length: count }, (_, n) => byNumber.get(n));
};

/**
 * Returns the standing of each player in their channel, in one statement and in the requested order;
 * undefined where there is no such channel.
 */
export const readStandings = (
  read: Read,
  projectId: string,
  { asked, now }: { asked: readonly PlayerInChannel[]; now: Date },
): Promise<(Standings | undefined)[]> => {
  const rows = asked.map(({ channelId, playerId }, n) => ({ n, c: channelId, p: playerId }));
  return inOrder(read, asked.length, standings(sql`${projectId}`, rows, now));
};

/** As `readStandings`, over several projects. */
export const findStandingsAnywhere = (
  work: Work,
  asked: readonly (ChannelRef & PlayerInChannel)[],
): Promise<(Standings | undefined)[]> => {
  const rows = asked.map(({ projectId, channelId, playerId }, n) => ({
    n,
    j: projectId,
    c: channelId,
    p: playerId,
  }));
  return inOrder(readWithin(work), asked.length, standings(sql`r.j`, rows, work.now));
};

const findStanding = (work: Work, ref: ChannelRef, playerId: string | null): Promise<Standings> =>
  foundOrGlobal(work, ref, async () => {
    const { projectId, channelId } = ref;
    const asked = [{ channelId, playerId }];
    const [row] = await readStandings(readWithin(work), projectId, { asked, now: work.now });
    return row;
  });

const GONE: ReadonlySet<string> = new Set(["MERGED", "ERASED"]);

const checkPlayer = (row: Standings, channel: Channel, nowMs: number): void => {
  if (row.player_status === null || GONE.has(row.player_status)) throw notFound("channel");
  const { kind, closedMs } = channel;
  const { is_listed: isListed, is_in_lobby: isInLobby } = row;
  if (!isMember({ kind, closedMs, isListed, isInLobby }, nowMs)) throw notFound("channel");
  if (row.is_banned) throw forbidden("PLAYER_BANNED", "the player is banned from this channel");
};

/** The player that reads, or null. */
export const readerIdOf = (actor: ChatActor): string | null =>
  actor.kind === "PLAYER" ? actor.playerId : null;

/**
 * Admits `actor` to a channel, in one statement.
 * @throws DomainError NOT_FOUND when it does not exist, and for a PRIVATE channel when the actor is neither a
 * member nor a moderator; FORBIDDEN PLAYER_BANNED
 */
export const admit = async (work: Work, ref: ChannelRef, actor: ChatActor): Promise<Admission> =>
  admitByStanding(ref.projectId, await findStanding(work, ref, readerIdOf(actor)), { actor, now: work.now });

/**
 * Admits `actor` to send to a channel: as `admit`, but a server also sends to PRIVATE channels that it may
 * not read. The result is for the send alone, never for the caller.
 * @throws DomainError as `admit`
 */
export const admitSending = async (work: Work, ref: ChannelRef, actor: ChatActor): Promise<Admission> =>
  admitAnyByStanding(ref.projectId, await findStanding(work, ref, readerIdOf(actor)), {
    actor,
    now: work.now,
  });

export const isPrivate = ({ kind }: Pick<Channel, "kind">): boolean => CHANNEL_PRIVACY[kind] === "PRIVATE";

type Admitting = { actor: ChatActor; now: Date };

/** As `admit`, given the actor's standing. */
export const admitByStanding = (projectId: string, row: Standings, admitting: Admitting): Admission => {
  const admission = admitAnyByStanding(projectId, row, admitting);
  const { playerId, isModerator } = admission.viewer;
  if (playerId === null && !isModerator && isPrivate(admission.channel)) throw notFound("channel");
  return admission;
};

const admitAnyByStanding = (projectId: string, row: Standings, { actor, now }: Admitting): Admission => {
  const playerId = readerIdOf(actor);
  const channel = channelOf(projectId, row);
  if (playerId !== null) checkPlayer(row, channel, now.getTime());
  const role = row.role ?? "MEMBER";
  return {
    channel,
    viewer: { playerId, isModerator: mayModerate(actor, role) },
    role,
    notify: row.notify ?? "ALL",
    lastReadSeq: Number(row.last_read_seq ?? 0),
  };
};

const mayModerate = (actor: ChatActor, role: ChatRole): boolean =>
  actor.kind === "ADMIN" || (actor.kind === "SERVER" ? actor.isModerator : isModeratorRole(role));
