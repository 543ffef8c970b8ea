import { sql } from "kysely";
import { forbidden, notFound } from "../errors.ts";
import type { Work } from "../work.ts";
import { type Channel, channelOf, type ChannelRef, type ChannelRow, foundOrGlobal } from "./channel-row.ts";
import type { ChannelKind, ChatActor, ChatRole, Notify } from "./views.ts";

/** How long members read the channel of a lobby that was closed, in ms: 10 minutes. */
export const CLOSED_READABLE_MS = 600_000;

/** Who reads: how messages are shown to them. */
export type Viewer = { playerId: string | null; isModerator: boolean };

/** A channel with what its reader is in it. */
export type Admission = {
  channel: Channel;
  viewer: Viewer;
  role: ChatRole;
  notify: Notify;
  lastReadSeq: number;
};

/** What `isMember` is judged by. */
export type Standing = { kind: ChannelKind; closedMs: number | null; isListed: boolean; isInLobby: boolean };

/**
 * Whether a player belongs to a channel: to PROJECT everybody, to LOBBY who is in the lobby, and for 10
 * minutes who was when it closed, to others who is listed as a member.
 */
export const isMember = ({ kind, closedMs, isListed, isInLobby }: Standing, nowMs: number): boolean => {
  if (kind === "PROJECT") return true;
  if (kind !== "LOBBY") return isListed;
  if (closedMs === null) return isInLobby;
  return isListed && nowMs < closedMs + CLOSED_READABLE_MS;
};

export const isModeratorRole = (role: ChatRole | null): boolean => role === "OWNER" || role === "MODERATOR";

type Row = ChannelRow & {
  player_status: string | null;
  role: ChatRole | null;
  notify: Notify | null;
  last_read_seq: string | number | null;
  is_listed: boolean;
  is_in_lobby: boolean;
  is_banned: boolean;
};

/** The columns of one player's standing in the channel `c`. */
const standingOf = (projectId: string, playerId: string | null, now: Date) => sql`
  select c.id, c.kind, c.key, c.name, c.lobby_id, c.settings, c.status, c.last_seq, c.read_only_at,
    c.created_at, p.status as player_status, m.role, m.notify, m.last_read_seq,
    (m.player_id is not null and m.left_at is null) as is_listed,
    l.player_id is not null as is_in_lobby,
    exists (select 1 from chat_sanctions s where s.project_id = c.project_id
      and s.player_id = ${playerId}::uuid and s.kind = 'BAN' and s.revoked_at is null
      and (s.channel_id is null or s.channel_id = c.id)
      and (s.expires_at is null or s.expires_at > ${now.toISOString()}::timestamptz)) as is_banned
  from chat_channels c
  left join players p on p.project_id = ${projectId} and p.id = ${playerId}::uuid
  left join chat_members m on m.project_id = ${projectId} and m.channel_id = c.id
    and m.player_id = ${playerId}::uuid
  left join lobby_members l on l.project_id = ${projectId} and l.lobby_id = c.lobby_id
    and l.player_id = ${playerId}::uuid and l.is_active`;

const findStanding = (work: Work, ref: ChannelRef, playerId: string | null): Promise<Row> =>
  foundOrGlobal(work, ref, async () => {
    const { projectId, channelId } = ref;
    const found = await sql<Row>`
      ${standingOf(projectId, playerId, work.now)}
      where c.project_id = ${projectId} and c.id = ${channelId}`.execute(work.db);
    return found.rows[0];
  });

const GONE: ReadonlySet<string> = new Set(["MERGED", "ERASED"]);

const checkPlayer = (row: Row, channel: Channel, nowMs: number): void => {
  if (row.player_status === null || GONE.has(row.player_status)) throw notFound("channel");
  const { kind, closedMs } = channel;
  const { is_listed: isListed, is_in_lobby: isInLobby } = row;
  if (!isMember({ kind, closedMs, isListed, isInLobby }, nowMs)) throw notFound("channel");
  if (row.is_banned) throw forbidden("PLAYER_BANNED", "the player is banned from this channel");
};

/**
 * Lets `actor` read a channel, in one statement.
 * @throws DomainError NOT_FOUND when there is none or they may not; FORBIDDEN PLAYER_BANNED
 */
export const admit = async (work: Work, ref: ChannelRef, actor: ChatActor): Promise<Admission> => {
  const playerId = actor.kind === "PLAYER" ? actor.playerId : null;
  const row = await findStanding(work, ref, playerId);
  const channel = channelOf(ref.projectId, row);
  if (playerId !== null) checkPlayer(row, channel, work.now.getTime());
  const role = row.role ?? "MEMBER";
  return {
    channel,
    viewer: { playerId, isModerator: isModerator(actor, role) },
    role,
    notify: row.notify ?? "ALL",
    lastReadSeq: Number(row.last_read_seq ?? 0),
  };
};

const isModerator = (actor: ChatActor, role: ChatRole): boolean =>
  actor.kind === "ADMIN" || (actor.kind === "SERVER" ? actor.isModerator : isModeratorRole(role));
