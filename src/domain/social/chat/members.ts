import { type RawBuilder, sql } from "kysely";
import { countRows, type Total } from "../../kernel/counting.ts";
import { forbidden, notFound } from "../../kernel/errors.ts";
import type { PlayerRef } from "../../kernel/events/events.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { orderBy, type Ordered, type SortOf } from "../../kernel/sorting.ts";
import type { Work } from "../../kernel/work.ts";
import { admit, type Admission } from "./access.ts";
import { auditChat, auditPrivateRead } from "./audit-chat.ts";
import type { Channel, ChannelRef } from "./channel-row.ts";
import type { ChatActor, ChatRole, Notify } from "../../kernel/events/chat-views.ts";

export type ChatMember = PlayerRef & {
  displayName: string | null;
  role: ChatRole;
  notify: Notify;
  lastReadSeq: number;
  joinedAt: string;
};

type Row = {
  id: string;
  external_user_id: string;
  display_name: string | null;
  role: ChatRole | null;
  notify: Notify | null;
  last_read_seq: string | number | null;
  joined_at: Date | string;
};

const show = (row: Row): ChatMember => ({
  playerId: row.id,
  externalUserId: row.external_user_id,
  displayName: row.display_name,
  role: row.role ?? "MEMBER",
  notify: row.notify ?? "ALL",
  lastReadSeq: Number(row.last_read_seq ?? 0),
  joinedAt: new Date(row.joined_at).toISOString(),
});

/** Members as `m` and their players as `p`: for an open lobby's channel the lobby's members. */
const membersOf = ({ projectId, id, kind, lobbyId, closedMs }: Channel): RawBuilder<unknown> => {
  const players = sql`join players p on p.project_id = ${projectId}`;
  const stored = sql`m.project_id = ${projectId} and m.channel_id = ${id}`;
  return kind === "LOBBY" && closedMs === null
    ? sql`lobby_members l ${players} and p.id = l.player_id
        left join chat_members m on ${stored} and m.player_id = l.player_id
        where l.project_id = ${projectId} and l.lobby_id = ${lobbyId} and l.is_active`
    : sql`chat_members m ${players} and p.id = m.player_id where ${stored} and m.left_at is null`;
};

const isOpenLobby = ({ kind, closedMs }: Channel): boolean => kind === "LOBBY" && closedMs === null;

/** Orders of the list. */
export const CHAT_MEMBER_ORDERS = { by: { joinedAt: sql`joined_at` }, usual: "asc" } as const;

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
  const page = await sql<Row>`
    select p.id, p.external_user_id, p.display_name, m.role, m.notify, m.last_read_seq, ${since} as joined_at
    from ${source} order by ${orderBy(CHAT_MEMBER_ORDERS, query, sql`p.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { members: page.rows.map(show), ...(await countRows(work, source)) };
};

export type MemberPatch = { role?: ChatRole | undefined; notify?: Notify | undefined };

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
    throw isNotFound(error) ? notFound("member") : error;
  });
  const { role = null, notify = null } = patch;
  const at = sql`${work.now.toISOString()}::timestamptz`;
  const found = await sql<Row>`
    with m as (
      insert into chat_members as m (project_id, channel_id, player_id, role, notify, joined_at)
      values (${channel.projectId}, ${channel.id}, ${playerId}, coalesce(${role}::text, 'MEMBER'),
        coalesce(${notify}::text, 'ALL'), ${at})
      on conflict (project_id, channel_id, player_id)
        do update set role = coalesce(${role}::text, m.role), notify = coalesce(${notify}::text, m.notify)
      returning *)
    select p.id, p.external_user_id, p.display_name, m.role, m.notify, m.last_read_seq, m.joined_at
    from m join players p on p.project_id = m.project_id and p.id = m.player_id`.execute(work.db);
  await auditChat(work, "chat_member.updated", ref, { playerId, ...patch });
  return show(found.rows[0]!);
};

const isNotFound = (error: unknown): boolean =>
  error instanceof Error && "code" in error && error.code === "NOT_FOUND";
