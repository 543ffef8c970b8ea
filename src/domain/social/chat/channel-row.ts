import { type RawBuilder, sql } from "kysely";
import { conflict, forbidden, notFound } from "../../kernel/errors.ts";
import {
  CHANNEL_PRIVACY,
  type ChannelKind,
  type ChannelSettings,
  type ChatActor,
  type ChatChannel,
  type ChatRole,
  type GivenSettings,
  type Notify,
} from "../../kernel/events/social-views.ts";
import { idFor, isId, newId } from "../../kernel/ids.ts";
import { type Read, readWithin, statementOf } from "../../kernel/read.ts";
import type { Work } from "../../kernel/work.ts";
import type { PlayerStatus } from "../../players/player.ts";
import { isInForce } from "./moderation/moderate.ts";
import { settingsFor } from "./settings.ts";

export type ChannelRef = { projectId: string; channelId: string };

/** Key of the channel that every project has; its row is created on first access. */
export const GLOBAL_KEY = "global";
const GLOBAL_NAME = "Global";

/** The same in every process, and known without the database. */
export const globalChannelId = (projectId: string): string => idFor(0, `chat:${projectId}:${GLOBAL_KEY}`);

export type ChannelRow = Pick<ChatChannel, "id" | "kind" | "key" | "name" | "status"> & {
  lobby_id: string | null;
  settings: Partial<ChannelSettings>;
  last_seq: number;
  read_only_at: Date | string | null;
  created_at: Date | string;
};

/** The columns of a ChannelRow, of a channel `c`. */
export const CHANNEL_COLUMNS = sql`
  c.id, c.kind, c.key, c.name, c.lobby_id, c.settings, c.status, c.last_seq, c.read_only_at, c.created_at`;

/** A channel with its complete settings. */
export type Channel = Omit<ChatChannel, "unread" | "lastMessage"> & {
  projectId: string;
  /** The explicit settings; `settings` has the defaults too. */
  given: Partial<ChannelSettings>;
  /** When its lobby was closed, in ms; nobody may send from then on. */
  closedMs: number | null;
};

export const channelOf = (projectId: string, row: ChannelRow): Channel => ({
  projectId,
  id: row.id,
  kind: row.kind,
  key: row.key,
  name: row.name,
  lobbyId: row.lobby_id,
  given: row.settings,
  settings: settingsFor(row.kind, row.settings),
  status: row.status,
  lastSeq: row.last_seq,
  closedMs: row.read_only_at === null ? null : new Date(row.read_only_at).getTime(),
  createdAt: new Date(row.created_at).toISOString(),
});

export const showChannel = (channel: Channel): ChatChannel => ({
  id: channel.id,
  kind: channel.kind,
  key: channel.key,
  name: channel.name,
  status: channel.status,
  settings: channel.settings,
  lobbyId: channel.lobbyId,
  lastSeq: channel.lastSeq,
  createdAt: channel.createdAt,
});

type NewRow = {
  projectId: string;
  id?: string;
  kind: ChannelKind;
  key?: string;
  name?: string | undefined;
  lobbyId?: string;
  directKey?: string;
  settings?: GivenSettings;
};

/** Creates a channel unless there is one of the same id or key; undefined then. */
export const insertChannel = async ({ db, now }: Work, row: NewRow): Promise<Channel | undefined> => {
  const { projectId, id = newId(), kind, key = null, name = null } = row;
  const { lobbyId = null, directKey = null, settings = {} } = row;
  const at = sql`${now.toISOString()}::timestamptz`;
  const made = await sql<ChannelRow>`
    insert into chat_channels as c (project_id, id, kind, key, name, lobby_id, direct_key, settings, status,
      created_at, updated_at)
    values (${projectId}, ${id}, ${kind}, ${key}, ${name}, ${lobbyId}, ${directKey},
      ${JSON.stringify(settings)}::jsonb, 'ACTIVE', ${at}, ${at})
    on conflict do nothing
    returning ${CHANNEL_COLUMNS}`.execute(db);
  return made.rows[0] && channelOf(projectId, made.rows[0]);
};

/** Creates the row of `global` if it is missing; of two concurrent calls one does. */
export const ensureGlobal = async (work: Work, projectId: string): Promise<void> => {
  const id = globalChannelId(projectId);
  await insertChannel(work, { projectId, id, kind: "PROJECT", key: GLOBAL_KEY, name: GLOBAL_NAME });
};

/** Reads the channel of a project that meets a condition. */
export const findChannel = async (
  { db }: Work,
  projectId: string,
  condition: RawBuilder<unknown>,
): Promise<Channel | undefined> => {
  const { rows } = await sql<ChannelRow>`
    select ${CHANNEL_COLUMNS} from chat_channels c
    where project_id = ${projectId} and ${condition}`.execute(db);
  return rows[0] && channelOf(projectId, rows[0]);
};

/**
 * Runs `find` again after creating `global`, if that was requested and missing.
 * @throws DomainError NOT_FOUND
 */
export const foundOrGlobal = async <T>(
  work: Work,
  { projectId, channelId }: ChannelRef,
  find: () => Promise<T | undefined>,
): Promise<T> => {
  if (!isId(channelId)) throw notFound("channel");
  const found = await find();
  if (found !== undefined) return found;
  if (channelId !== globalChannelId(projectId)) throw notFound("channel");
  await ensureGlobal(work, projectId);
  const made = await find();
  if (made === undefined) throw notFound("channel");
  return made;
};

/**
 * Locks the channel's row until commit: writers of its lines take this lock first, so that they are numbered
 * consecutively. @throws DomainError NOT_FOUND
 */
export const lockChannel = (work: Work, ref: ChannelRef): Promise<Channel> =>
  foundOrGlobal(work, ref, () => findChannel(work, ref.projectId, sql`id = ${ref.channelId} for update`));

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
  playerStatus: PlayerStatus | null;
};

/** @throws DomainError CONFLICT PLAYER_INACTIVE for a player who may only read */
export const checkActive = ({ playerStatus }: Admission): void => {
  if (playerStatus !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `the player is ${playerStatus}`);
};

/** Inputs of `isMember`. */
type Standing = { kind: ChannelKind; closedMs: number | null; isListed: boolean; isInLobby: boolean };

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
type Standings = ChannelRow & {
  player_status: PlayerStatus | null;
  role: ChatRole | null;
  notify: Notify | null;
  last_read_seq: number | null;
  isListed: boolean;
  isInLobby: boolean;
  is_banned: boolean;
};

/** A player in a channel; null: no particular player. */
type PlayerInChannel = { channelId: string; playerId: string | null };

/** SQL: whether a player is banned from the channel `c`. */
export const isBannedFrom = (playerId: RawBuilder<unknown>, now: Date): RawBuilder<unknown> => sql`
  exists (select 1 from chat_sanctions s where s.project_id = c.project_id
    and s.player_id = ${playerId} and s.kind = 'BAN' and (s.channel_id is null or s.channel_id = c.id)
    and ${isInForce(now)})`;

/**
 * Selects the standings requested by `rows`: numbers, channels and players. `project` is that of a row `r`.
 */
const standings = (project: RawBuilder<unknown>, rows: readonly object[], now: Date) => sql<
  Standings & { n: number }
>`
  select r.n, ${CHANNEL_COLUMNS}, p.status as player_status, m.role, m.notify, m.last_read_seq,
    (m.player_id is not null and m.left_at is null) as "isListed",
    l.player_id is not null as "isInLobby",
    ${isBannedFrom(sql`r.p`, now)} as is_banned
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
const findStandingsAnywhere = (
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
  if (!isMember({ ...row, closedMs: channel.closedMs }, nowMs)) throw notFound("channel");
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
    lastReadSeq: row.last_read_seq ?? 0,
    playerStatus: row.player_status,
  };
};

/** Whether an actor may moderate: a player by their role in the channel. */
export const mayModerate = (actor: ChatActor, role: ChatRole | null = null): boolean =>
  actor.kind === "ADMIN" || (actor.kind === "SERVER" ? actor.isModerator : isModeratorRole(role));

/** A player who reads a channel. */
export type Reader = ChannelRef & { playerId: string };

const MAY_READ: ReadonlySet<string | null> = new Set(["ACTIVE", "SUSPENDED"]);

/** Key of a reader in the result of `findReaders`. */
export const readerKey = (channelId: string, playerId: string): string => `${channelId}:${playerId}`;

/**
 * Returns those of `present` who may still read their channel, by `readerKey`; for many channels in one
 * statement.
 */
export const findReaders = async (work: Work, present: readonly Reader[]): Promise<Set<string>> => {
  const rows = await findStandingsAnywhere(work, present);
  const may = present.filter(({ projectId }, n) => {
    const row = rows[n];
    if (!row || row.is_banned || !MAY_READ.has(row.player_status)) return false;
    const { closedMs } = channelOf(projectId, row);
    return isMember({ ...row, closedMs }, work.now.getTime());
  });
  return new Set(may.map(({ channelId, playerId }) => readerKey(channelId, playerId)));
};
