import { sql } from "kysely";
import { notFound } from "../../kernel/errors.ts";
import { idFor, isId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { settingsFor } from "./settings.ts";
import type {
  ChannelKind,
  ChannelSettings,
  ChannelStatus,
  ChatChannel,
} from "../../kernel/events/chat-views.ts";

export type ChannelRef = { projectId: string; channelId: string };

/** Key of the channel that every project has; its row is created on first access. */
export const GLOBAL_KEY = "global";
const GLOBAL_NAME = "Global";

/** The same in every process, and known without the database. */
export const globalChannelId = (projectId: string): string => idFor(0, `chat:${projectId}:${GLOBAL_KEY}`);

export type ChannelRow = {
  id: string;
  kind: ChannelKind;
  key: string | null;
  name: string | null;
  lobby_id: string | null;
  settings: Partial<ChannelSettings>;
  status: ChannelStatus;
  last_seq: string | number;
  read_only_at: Date | string | null;
  created_at: Date | string;
};

/** A channel with its complete settings. */
export type Channel = {
  projectId: string;
  id: string;
  kind: ChannelKind;
  key: string | null;
  name: string | null;
  lobbyId: string | null;
  /** The explicit settings, and those including defaults. */
  given: Partial<ChannelSettings>;
  settings: ChannelSettings;
  status: ChannelStatus;
  lastSeq: number;
  /** When its lobby was closed, in ms; nobody may send from then on. */
  closedMs: number | null;
  createdAt: string;
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
  lastSeq: Number(row.last_seq),
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

/** Creates the row of `global` if it is missing; of two concurrent calls one does. */
export const ensureGlobal = async ({ db, now }: Work, projectId: string): Promise<void> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  await sql`
    insert into chat_channels (project_id, id, kind, key, name, settings, status, created_at, updated_at)
    values (${projectId}, ${globalChannelId(projectId)}, 'PROJECT', ${GLOBAL_KEY}, ${GLOBAL_NAME}, '{}',
      'ACTIVE', ${at}, ${at})
    on conflict do nothing`.execute(db);
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
  foundOrGlobal(work, ref, async () => {
    const found = await sql<ChannelRow>`
      select id, kind, key, name, lobby_id, settings, status, last_seq, read_only_at, created_at
      from chat_channels where project_id = ${ref.projectId} and id = ${ref.channelId}
      for update`.execute(work.db);
    return found.rows[0] && channelOf(ref.projectId, found.rows[0]);
  });
