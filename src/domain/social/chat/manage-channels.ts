import { sql } from "kysely";
import { conflict } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { countNear } from "../../kernel/room-lock.ts";
import type { Work } from "../../kernel/work.ts";
import { auditChat } from "./audit-chat.ts";
import { publishToReaders } from "./change-message.ts";
import {
  type Channel,
  channelOf,
  type ChannelRef,
  type ChannelRow,
  lockChannel,
  showChannel,
} from "./channel-row.ts";
import { type GivenSettings, settingsFor, withoutUndefined } from "./settings.ts";
import type { ChannelKind, ChannelStatus, ChatChannel } from "../../kernel/events/chat-views.ts";

/** Maximum number of a project's channels, without those of lobbies. */
export const CHANNELS_MAX = 100_000;

const countChannels = async ({ db }: Work, projectId: string): Promise<number> => {
  const counted = await sql<{ n: string | number }>`
    select count(*) as n from (
      select 1 from chat_channels where project_id = ${projectId} and kind <> 'LOBBY'
      limit ${CHANNELS_MAX}) c`.execute(db);
  return Number(counted.rows[0]!.n);
};

/** @throws DomainError CONFLICT LIMIT_REACHED */
export const checkChannelCount = async (work: Work, projectId: string): Promise<void> => {
  const limit = { projectId, limited: "channels", max: CHANNELS_MAX } as const;
  if ((await countNear(work, limit, () => countChannels(work, projectId))) >= CHANNELS_MAX)
    throw conflict("LIMIT_REACHED", `a project has at most ${CHANNELS_MAX} channels`);
};

export type NewRow = {
  projectId: string;
  kind: ChannelKind;
  key?: string;
  name?: string | undefined;
  directKey?: string;
  settings?: GivenSettings;
};

/** Creates a channel unless the key is taken; undefined then. */
export const insertChannel = async ({ db, now }: Work, row: NewRow): Promise<Channel | undefined> => {
  const { projectId, kind, key = null, name = null, directKey = null, settings = {} } = row;
  const at = sql`${now.toISOString()}::timestamptz`;
  const made = await sql<ChannelRow>`
    insert into chat_channels (project_id, id, kind, key, name, direct_key, settings, status, created_at,
      updated_at)
    values (${projectId}, ${newId()}, ${kind}, ${key}, ${name}, ${directKey},
      ${JSON.stringify(settings)}::jsonb, 'ACTIVE', ${at}, ${at})
    on conflict do nothing
    returning id, kind, key, name, lobby_id, settings, status, last_seq, read_only_at,
      created_at`.execute(db);
  return made.rows[0] && channelOf(projectId, made.rows[0]);
};

export type NewChannel = { key: string; name?: string | undefined; settings: GivenSettings };

/** Creates a channel for the whole project. @throws DomainError CONFLICT KEY_TAKEN, LIMIT_REACHED */
export const createChannel = async (
  work: Work,
  projectId: string,
  { key, name, settings }: NewChannel,
): Promise<ChatChannel> => {
  await checkChannelCount(work, projectId);
  const made = await insertChannel(work, { projectId, kind: "PROJECT", key, name, settings });
  if (!made) throw conflict("KEY_TAKEN", `there is a channel ${key} already`);
  await auditChat(work, "chat_channel.created", { projectId, channelId: made.id }, { key });
  return showChannel(made);
};

export type ChannelPatch = { name?: string | null | undefined; settings?: GivenSettings | undefined };

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
  const given = { ...before.given, ...withoutUndefined(settings ?? {}) };
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
