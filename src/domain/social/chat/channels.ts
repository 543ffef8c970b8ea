import { sql } from "kysely";
import { notFound } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { type Read, readWithin } from "../../kernel/read.ts";
import type { Work } from "../../kernel/work.ts";
import { admit, type Admission, admitSending } from "./access.ts";
import { type ChannelRef, GLOBAL_KEY, globalChannelId, showChannel } from "./channel-row.ts";
import type { ChannelSettings, ChatActor, ChatChannel } from "../../kernel/events/chat-views.ts";

export type { ChannelRef } from "./channel-row.ts";

/** How long the channel of a closed lobby is kept for moderators, in ms: 7 days. */
const CLOSED_KEPT_MS = 7 * 86_400_000;

/** Creates the channel of a lobby, in the lobby's own commit. @returns its id */
export const openLobbyChannel = async (
  { db, now }: Work,
  projectId: string,
  lobbyId: string,
  name: string,
): Promise<string> => {
  const id = newId();
  const at = sql`${now.toISOString()}::timestamptz`;
  await sql`
    insert into chat_channels (project_id, id, kind, name, lobby_id, settings, status, created_at, updated_at)
    values (${projectId}, ${id}, 'LOBBY', ${name}, ${lobbyId}, '{}', 'ACTIVE', ${at}, ${at})`.execute(db);
  return id;
};

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
export const showAdmitted = ({ channel, viewer, lastReadSeq }: Admission): ChatChannel => {
  const shown = showChannel(channel);
  if (viewer.playerId === null) return shown;
  return { ...shown, unread: Math.max(0, channel.lastSeq - lastReadSeq) };
};
