import assert from "node:assert/strict";
import { type RawBuilder, sql } from "kysely";
import { ADMINS, type Caller } from "../../kernel/caller.ts";
import { DomainError, forbidden, invalid, notFound } from "../../kernel/errors.ts";
import {
  type ChannelKind,
  type ChannelStatus,
  type ChatActor,
  type ChatChannel,
  type ChatRole,
  type Notify,
  PUBLIC_KINDS,
} from "../../kernel/events/social-views.ts";
import type { PlayerRef } from "../../kernel/events/events.ts";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { countRows, type Total, type Work } from "../../kernel/work.ts";
import { getPlayer } from "../../progression/players/players.ts";
import {
  type Admission,
  admit,
  type Channel,
  channelOf,
  type ChannelRef,
  type ChannelRow,
  CLOSED_READABLE_MS,
  CHANNEL_COLUMNS,
  ensureGlobal,
  globalChannelId,
  isBannedFrom,
  isPrivate,
  mayModerate,
  readerIdOf,
  type Viewer,
} from "./channel-row.ts";
import { showAdmitted } from "./channels.ts";
import { auditChat, auditPrivateRead, readNewest } from "./message-view.ts";

/**
 * Returns the actor of a REST call: a console user; a player whom a key names by `playerId` (a UUID, or
 * `ext:` and the externalUserId), with that player's rights; or the key itself as the server.
 * @throws DomainError NOT_FOUND for an unknown player
 */
export const chatActorOf = async (
  work: Work,
  projectId: string,
  caller: Caller,
  playerId?: string,
): Promise<ChatActor> => {
  if (caller.kind === "user") {
    if (playerId !== undefined) throw invalid("playerId", "is for API keys: console users act as themselves");
    // Without the right to moderate, a user reads what everybody in the channel reads.
    if (!ADMINS.includes(caller.role)) return { kind: "SERVER", isModerator: false };
    return { kind: "ADMIN", userId: caller.userId };
  }
  assert(caller.kind === "key", "the operation is a tenant's");
  if (playerId === undefined) return { kind: "SERVER", isModerator: caller.scopes.includes("chat:moderate") };
  const player = await getPlayer(work, projectId, playerId);
  return { kind: "PLAYER", playerId: player.id };
};

/** Orders of the list. */
export const CHANNEL_ORDERS = {
  by: { updatedAt: sql`c.updated_at`, createdAt: sql`c.created_at` },
  usual: "desc",
} as const;

type ListChannels = PageQuery &
  Ordered<SortOf<typeof CHANNEL_ORDERS>> & {
    kind?: ChannelKind | undefined;
    status?: ChannelStatus | undefined;
  };

type ListedRow = ChannelRow & { last_read_seq: number | null };

/**
 * Channels of a player: those of the project, those that list them as a member, and those of their lobbies,
 * without those that the player is banned from.
 */
const ofPlayer = (projectId: string, playerId: string, now: Date): RawBuilder<unknown> => {
  const readable = sql`${new Date(now.getTime() - CLOSED_READABLE_MS).toISOString()}::timestamptz`;
  return sql`
    c.id in (
      select id from chat_channels
        where project_id = ${projectId} and key is not null and kind = 'PROJECT' and status <> 'ARCHIVED'
      union all
      select m.channel_id from chat_members m
        join chat_channels x on x.project_id = m.project_id and x.id = m.channel_id
        where m.project_id = ${projectId} and m.player_id = ${playerId} and m.left_at is null
          and (x.kind in ('DIRECT', 'GROUP') or x.kind = 'LOBBY' and x.read_only_at > ${readable})
      union all
      select x.id from lobby_members l
        join chat_channels x on x.project_id = l.project_id and x.lobby_id = l.lobby_id
        where l.project_id = ${projectId} and l.player_id = ${playerId} and l.role = 'PLAYER'
          and l.status in ('JOINED', 'READY', 'DISCONNECTED') and x.read_only_at is null)
    and not ${isBannedFrom(sql`${playerId}`, now)}`;
};

/** Channels visible without a player: private ones only for moderators. */
const ofOutsider = (isModerator: boolean): RawBuilder<unknown> =>
  isModerator
    ? sql`true`
    : sql`c.kind in (select json_array_elements_text(${JSON.stringify(PUBLIC_KINDS)}::json))`;

/** In a private channel the newest message is shown to members alone: others must read it explicitly. */
const newestOf = async (
  work: Work,
  projectId: string,
  channels: readonly Channel[],
  viewer: Viewer,
): Promise<(channel: Channel) => Pick<ChatChannel, "lastMessage">> => {
  const open = channels.filter((channel) => viewer.playerId !== null || !isPrivate(channel));
  const newest = await readNewest(work, projectId, open, viewer);
  return (channel) => (open.includes(channel) ? { lastMessage: newest.get(channel.id) ?? null } : {});
};

/**
 * Lists the channels that `actor` may read, the last changed first: for players their own with unread counts,
 * for servers and console users the project's public ones, for moderators all. Spectators find their lobby's
 * channel through the lobby.
 */
export const listChannels = async (
  work: Work,
  projectId: string,
  actor: ChatActor,
  query: ListChannels,
): Promise<Total & { channels: ChatChannel[] }> => {
  const { kind, status } = query;
  const playerId = readerIdOf(actor);
  const viewer = { playerId, isModerator: mayModerate(actor) };
  await needGlobal(work, projectId);
  const source = sql`chat_channels c
    left join chat_members m on m.project_id = ${projectId} and m.channel_id = c.id
      and m.player_id = ${playerId}::uuid
    where c.project_id = ${projectId}
      and ${playerId === null ? ofOutsider(viewer.isModerator) : ofPlayer(projectId, playerId, work.now)}
      and ${kind === undefined ? sql`true` : sql`c.kind = ${kind}`}
      and ${status === undefined ? sql`true` : sql`c.status = ${status}`}`;
  const page = await sql<ListedRow>`
    select ${CHANNEL_COLUMNS}, m.last_read_seq
    from ${source} order by ${orderBy(CHANNEL_ORDERS, query, sql`c.id`)} limit ${query.limit}
    offset ${offsetOf(query)}`.execute(work.db);
  const channels = page.rows.map((row) => channelOf(projectId, row));
  const newest = await newestOf(work, projectId, channels, viewer);
  return {
    channels: channels.map((channel, i) => {
      const lastReadSeq = page.rows[i]!.last_read_seq ?? 0;
      return { ...showAdmitted({ channel, viewer, lastReadSeq }), ...newest(channel) };
    }),
    ...(await countRows(work, source)),
  };
};

const needGlobal = async (work: Work, projectId: string): Promise<void> => {
  const found = await sql`
    select 1 from chat_channels
    where project_id = ${projectId} and id = ${globalChannelId(projectId)}`.execute(work.db);
  if (found.rows.length === 0) await ensureGlobal(work, projectId);
};

type ChatMember = PlayerRef & {
  displayName: string | null;
  role: ChatRole;
  notify: Notify;
  lastReadSeq: number;
  joinedAt: string;
};

/** SQL: the fields of a ChatMember, except for when they joined. */
const MEMBER = sql`p.id as "playerId", p.external_user_id as "externalUserId",
  p.display_name as "displayName", coalesce(m.role, 'MEMBER') as role, coalesce(m.notify, 'ALL') as notify,
  coalesce(m.last_read_seq, 0) as "lastReadSeq"`;

const isOpenLobby = ({ kind, closedMs }: Channel): boolean => kind === "LOBBY" && closedMs === null;

/** Members as `m` and their players as `p`: for an open lobby's channel the lobby's members. */
const membersOf = (channel: Channel): RawBuilder<unknown> => {
  const { projectId, id, lobbyId } = channel;
  const players = sql`join players p on p.project_id = ${projectId}`;
  const stored = sql`m.project_id = ${projectId} and m.channel_id = ${id}`;
  return isOpenLobby(channel)
    ? sql`lobby_members l ${players} and p.id = l.player_id
        left join chat_members m on ${stored} and m.player_id = l.player_id
        where l.project_id = ${projectId} and l.lobby_id = ${lobbyId} and l.is_active`
    : sql`chat_members m ${players} and p.id = m.player_id where ${stored} and m.left_at is null`;
};

/** Orders of the list. */
export const CHAT_MEMBER_ORDERS = { by: { joinedAt: sql`"joinedAt"` }, usual: "asc" } as const;

/**
 * Lists a channel's members, by the time they joined. In a project's channel, to which everybody belongs,
 * those who have read or set something. @throws DomainError as readChannel
 */
export const listMembers = async (
  work: Work,
  ref: ChannelRef,
  actor: ChatActor,
  query: PageQuery & Ordered<SortOf<typeof CHAT_MEMBER_ORDERS>>,
): Promise<Total & { members: ChatMember[] }> => {
  const { channel } = await admit(work, ref, actor);
  await auditPrivateRead(work, channel, { actor, what: "members" });
  const source = membersOf(channel);
  const since = isOpenLobby(channel) ? sql`l.joined_at` : sql`m.joined_at`;
  const page = await sql<RowOf<ChatMember>>`
    select ${MEMBER}, ${since} as "joinedAt" from ${source} order by ${orderBy(CHAT_MEMBER_ORDERS, query, sql`p.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { members: page.rows.map((row) => shownRow(row)), ...(await countRows(work, source)) };
};

type MemberPatch = { role?: ChatRole | undefined; notify?: Notify | undefined };

const checkPatch = (
  actor: ChatActor,
  { viewer, role }: Admission,
  memberId: string,
  patch: MemberPatch,
): void => {
  const isOwner = actor.kind === "PLAYER" ? role === "OWNER" : viewer.isModerator;
  if (patch.role !== undefined && !isOwner)
    throw forbidden("CHANNEL_ROLE", "only owners of the channel and chat:moderate may change roles");
  const isSelf = actor.kind === "PLAYER" && actor.playerId === memberId;
  if (patch.notify !== undefined && actor.kind === "PLAYER" && !isSelf)
    throw forbidden("CHANNEL_ROLE", "players choose their own notifications");
};

/**
 * Changes a member's role or notification settings.
 * @throws DomainError NOT_FOUND for a player who is not a member, FORBIDDEN
 */
export const updateMember = async (
  work: Work,
  ref: ChannelRef,
  actor: ChatActor,
  { playerId, patch }: { playerId: string; patch: MemberPatch },
): Promise<ChatMember> => {
  const admission = await admit(work, ref, actor);
  checkPatch(actor, admission, playerId, patch);
  const { channel } = await admit(work, ref, { kind: "PLAYER", playerId }).catch((error: unknown) => {
    throw error instanceof DomainError && error.code === "NOT_FOUND" ? notFound("member") : error;
  });
  const { role = null, notify = null } = patch;
  const at = sql`${work.now.toISOString()}::timestamptz`;
  const found = await sql<RowOf<ChatMember>>`
    with m as (
      insert into chat_members as m (project_id, channel_id, player_id, role, notify, joined_at)
      values (${channel.projectId}, ${channel.id}, ${playerId}, coalesce(${role}::text, 'MEMBER'),
        coalesce(${notify}::text, 'ALL'), ${at})
      on conflict (project_id, channel_id, player_id)
        do update set role = coalesce(${role}::text, m.role), notify = coalesce(${notify}::text, m.notify)
      returning *)
    select ${MEMBER}, m.joined_at as "joinedAt"
    from m join players p on p.project_id = m.project_id and p.id = m.player_id`.execute(work.db);
  await auditChat(work, "chat_member.updated", ref, { playerId, ...patch });
  return shownRow(found.rows[0]!);
};
