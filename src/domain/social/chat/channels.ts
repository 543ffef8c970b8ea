import { sql } from "kysely";
import { conflict, forbidden, invalid, notFound } from "../../kernel/errors.ts";
import {
  type ChannelSettings,
  type ChannelStatus,
  type ChatActor,
  type ChatChannel,
  type GivenSettings,
} from "../../kernel/events/social-views.ts";
import { isId } from "../../kernel/ids.ts";
import { definedOf } from "../../kernel/json.ts";
import { type Read, readWithin } from "../../kernel/read.ts";
import { countNear, type Work } from "../../kernel/work.ts";
import {
  type Admission,
  admit,
  admitSending,
  type Channel,
  type ChannelRef,
  checkActive,
  ensureGlobal,
  findChannel,
  GLOBAL_KEY,
  globalChannelId,
  insertChannel,
  lockChannel,
  showChannel,
} from "./channel-row.ts";
import { auditChat, publishToReaders } from "./message-view.ts";
import { settingsFor } from "./settings.ts";

/** Maximum number of a project's channels, without those of lobbies. */
export const CHANNELS_MAX = 100_000;

/** @throws DomainError CONFLICT LIMIT_REACHED */
const checkChannelCount = async (work: Work, projectId: string): Promise<void> => {
  const limit = { projectId, limited: "channels", max: CHANNELS_MAX } as const;
  const counted = sql`chat_channels where project_id = ${projectId} and kind <> 'LOBBY'`;
  if ((await countNear(work, limit, counted)) >= CHANNELS_MAX)
    throw conflict("LIMIT_REACHED", `a project has at most ${CHANNELS_MAX} channels`);
};

type NewChannel = { key: string; name?: string | undefined; settings: GivenSettings };

/** Creates a channel for the whole project. @throws DomainError CONFLICT KEY_TAKEN, LIMIT_REACHED */
export const createChannel = async (
  work: Work,
  projectId: string,
  { key, name, settings }: NewChannel,
): Promise<ChatChannel> => {
  await checkChannelCount(work, projectId);
  // It is there from the beginning, though it is stored only when somebody asks for it.
  if (key === GLOBAL_KEY) await ensureGlobal(work, projectId);
  const made = await insertChannel(work, { projectId, kind: "PROJECT", key, name, settings });
  if (!made) throw conflict("KEY_TAKEN", `there is a channel ${key} already`);
  await auditChat(work, "chat_channel.created", { projectId, channelId: made.id }, { key });
  return showChannel(made);
};

type ChannelPatch = { name?: string | null | undefined; settings?: GivenSettings | undefined };

const save = async ({ db, now }: Work, channel: Channel): Promise<void> => {
  await sql`
    update chat_channels set name = ${channel.name}, settings = ${JSON.stringify(channel.given)}::jsonb,
      status = ${channel.status}, updated_at = ${now.toISOString()}::timestamptz
    where project_id = ${channel.projectId} and id = ${channel.id}`.execute(db);
};

/** Readers only receive the fields that they depend on. */
const publishChannel = (work: Work, channel: Channel): void => {
  const { id: channelId, status, settings } = channel;
  publishToReaders(work, channel, undefined, [
    { name: "chat.channel", data: { channelId, status, settings } },
  ]);
};

/** Changes the name and individual settings of a channel; absent ones stay. @throws DomainError NOT_FOUND */
export const updateChannel = async (
  work: Work,
  ref: ChannelRef,
  { name, settings }: ChannelPatch,
): Promise<ChatChannel> => {
  const before = await lockChannel(work, ref);
  const given = { ...before.given, ...definedOf(settings ?? {}) };
  const after: Channel = {
    ...before,
    name: name === undefined ? before.name : name,
    given,
    settings: settingsFor(before.kind, given),
  };
  await save(work, after);
  publishChannel(work, after);
  await auditChat(work, "chat_channel.updated", ref, {
    ...(name === undefined ? {} : { name }),
    ...settings,
  });
  return showChannel(after);
};

const ACTION: Readonly<Record<ChannelStatus, string>> = {
  ACTIVE: "chat_channel.unlocked",
  LOCKED: "chat_channel.locked",
  ARCHIVED: "chat_channel.archived",
};

/**
 * LOCKED: only moderators can send; ARCHIVED: nobody can; ACTIVE again, from either. Idempotent. @throws
 * DomainError NOT_FOUND
 */
export const setChannelStatus = async (
  work: Work,
  ref: ChannelRef,
  status: ChannelStatus,
): Promise<ChatChannel> => {
  const before = await lockChannel(work, ref);
  if (before.status === status) return showChannel(before);
  const after: Channel = { ...before, status };
  await save(work, after);
  publishChannel(work, after);
  await auditChat(work, ACTION[status], ref);
  return showChannel(after);
};

export type { ChannelRef } from "./channel-row.ts";

/** How long the channel of a closed lobby is kept for moderators, in ms: 7 days. */
const CLOSED_KEPT_MS = 7 * 86_400_000;

/** Creates the channel of a lobby, in the lobby's own commit. @returns its id */
export const openLobbyChannel = async (
  work: Work,
  projectId: string,
  lobbyId: string,
  name: string,
): Promise<string> => (await insertChannel(work, { projectId, kind: "LOBBY", name, lobbyId }))!.id;

/**
 * Closes the channel of a lobby, in the lobby's own commit: nobody sends any more, its last members read for
 * 10 minutes, and moderators for 7 days. Idempotent.
 */
export const closeLobbyChannel = async (
  { db, now }: Work,
  projectId: string,
  lobbyId: string,
): Promise<void> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  const deleteAt = new Date(now.getTime() + CLOSED_KEPT_MS).toISOString();
  // From here on members are those listed: everybody in the lobby until this commit.
  await sql`
    with c as (
      update chat_channels set read_only_at = ${at}, delete_at = ${deleteAt}::timestamptz, updated_at = ${at}
      where project_id = ${projectId} and lobby_id = ${lobbyId} and read_only_at is null
      returning project_id, id),
    present as (
      select c.project_id, c.id, l.player_id from c
      join lobby_members l on l.project_id = c.project_id and l.lobby_id = ${lobbyId}
      where l.is_active or (l.status = 'LEFT' and l.left_at = ${at})),
    gone as (
      update chat_members m set left_at = ${at} from c
      where m.project_id = c.project_id and m.channel_id = c.id and m.left_at is null
        and not exists (select 1 from present p where p.player_id = m.player_id))
    insert into chat_members (project_id, channel_id, player_id, role, notify, joined_at)
    select project_id, id, player_id, 'MEMBER', 'ALL', ${at} from present
    on conflict (project_id, channel_id, player_id) do update set left_at = null`.execute(db);
};

/**
 * Resolves a channel by its id or its key; whether it exists and who may read it is checked by `readChannel`.
 * @throws DomainError NOT_FOUND for an unknown key
 */
export const getChannelId = async (work: Work, projectId: string, ref: string): Promise<string> => {
  const [id] = await findChannelIds(readWithin(work), projectId, [ref]);
  if (id === undefined) throw notFound("channel");
  return id;
};

const CHANNELS_BY_KEY = `
  select c.id, c.key from json_array_elements_text($2::json) as k(key)
  join chat_channels c on c.project_id = $1::uuid and c.key = k.key`;

/** As `getChannelId` for many, in at most one statement; undefined for an unknown key. */
export const findChannelIds = async (
  read: Read,
  projectId: string,
  refs: readonly string[],
): Promise<(string | undefined)[]> => {
  const idOf = (ref: string): string | undefined => {
    if (isId(ref)) return ref.toLowerCase();
    return ref === GLOBAL_KEY ? globalChannelId(projectId) : undefined;
  };
  const keys = [...new Set(refs)].filter((ref) => idOf(ref) === undefined);
  if (keys.length === 0) return refs.map(idOf);
  const rows = await read<{ id: string; key: string }>({
    text: CHANNELS_BY_KEY,
    values: [projectId, JSON.stringify(keys)],
  });
  const byKey = new Map(rows.map(({ id, key }) => [key, id]));
  return refs.map((ref) => idOf(ref) ?? byKey.get(ref));
};

/**
 * Returns a channel that `actor` may read. @throws DomainError NOT_FOUND when it does not exist or they may
 * not; FORBIDDEN PLAYER_BANNED for a player banned from it
 */
export const readChannel = async (work: Work, ref: ChannelRef, actor: ChatActor): Promise<ChatChannel> =>
  showAdmitted(await admit(work, ref, actor));

/**
 * Returns the settings of a channel for a sender: a server sends to channels that it may not read.
 * @throws DomainError NOT_FOUND, FORBIDDEN PLAYER_BANNED
 */
export const readSettings = async (work: Work, ref: ChannelRef, actor: ChatActor): Promise<ChannelSettings> =>
  (await admitSending(work, ref, actor)).channel.settings;

/** Returns a channel as the admitted reader sees it; for a player including the number of unread messages. */
export const showAdmitted = ({
  channel,
  viewer,
  lastReadSeq,
}: Pick<Admission, "channel" | "viewer" | "lastReadSeq">): ChatChannel => {
  const shown = showChannel(channel);
  if (viewer.playerId === null) return shown;
  return { ...shown, unread: Math.max(0, channel.lastSeq - lastReadSeq) };
};

const checkPolicy = async ({ db }: Work, projectId: string): Promise<void> => {
  const found = await sql<{ policy: string | null }>`
    select settings->'chat'->>'directPolicy' as policy from projects where id = ${projectId}`.execute(db);
  if (found.rows[0]?.policy === "OFF")
    throw forbidden("CHANNEL_RESTRICTED", "direct messages are disabled in this project");
};

const findDirect = (work: Work, projectId: string, directKey: string): Promise<Channel | undefined> =>
  findChannel(work, projectId, sql`direct_key = ${directKey}`);

/**
 * Returns the direct channel of two players, which is created on first use; of two concurrent calls one
 * creates it.
 * @throws DomainError VALIDATION_ERROR for one player twice, FORBIDDEN CHANNEL_RESTRICTED where the project
 * does not allow direct messages, CONFLICT LIMIT_REACHED
 */
export const openDirect = async (
  work: Work,
  projectId: string,
  players: readonly [string, string],
): Promise<{ channel: ChatChannel; isNew: boolean }> => {
  if (players[0] === players[1]) throw invalid("playerIds", "must be two different players");
  await checkPolicy(work, projectId);
  const directKey = players.toSorted().join(":");
  const known = await findDirect(work, projectId, directKey);
  if (known) return { channel: showChannel(known), isNew: false };
  await checkChannelCount(work, projectId);
  const made = await insertChannel(work, { projectId, kind: "DIRECT", directKey });
  // A concurrent call was faster: this statement sees what it has committed.
  if (!made) return { channel: showChannel((await findDirect(work, projectId, directKey))!), isNew: false };
  await sql`
    insert into chat_members (project_id, channel_id, player_id, role, notify, joined_at)
    select ${projectId}::uuid, ${made.id}::uuid, id, 'MEMBER', 'ALL', ${work.now.toISOString()}::timestamptz
    from unnest(${`{${players.join(",")}}`}::uuid[]) as u(id)`.execute(work.db);
  return { channel: showChannel(made), isNew: true };
};

/** A direct channel, without `lastSeq` for a caller that may not read it. */
type DirectChannel = Omit<ChatChannel, "lastSeq"> & { lastSeq?: number };

/**
 * As `openDirect`, for `actor`: one of the two also sees the number of unread messages, and a server that may
 * not moderate does not see the number of messages.
 * @throws DomainError as `openDirect`; VALIDATION_ERROR for a player who is neither of the two; FORBIDDEN
 * PLAYER_BANNED; CONFLICT PLAYER_INACTIVE
 */
export const openDirectFor = async (
  work: Work,
  projectId: string,
  actor: ChatActor,
  players: readonly [string, string],
): Promise<{ channel: DirectChannel; isNew: boolean }> => {
  if (actor.kind === "PLAYER" && !players.includes(actor.playerId))
    throw invalid("playerId", "must be one of the two players");
  const { channel, isNew } = await openDirect(work, projectId, players);
  if (actor.kind === "PLAYER") {
    const admission = await admit(work, { projectId, channelId: channel.id }, actor);
    checkActive(admission);
    return { channel: showAdmitted(admission), isNew };
  }
  if (actor.kind === "ADMIN" || actor.isModerator) return { channel, isNew };
  const { lastSeq: _, ...shown } = channel;
  return { channel: shown, isNew };
};
