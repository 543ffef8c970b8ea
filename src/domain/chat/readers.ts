import { sql } from "kysely";
import type { Work } from "../work.ts";
import { isMember } from "./access.ts";
import type { ChannelRef } from "./channel-row.ts";
import type { ChannelKind } from "./views.ts";

type Row = {
  player_id: string;
  kind: ChannelKind;
  read_only_at: Date | string | null;
  status: string;
  is_listed: boolean;
  is_in_lobby: boolean;
  is_banned: boolean;
};

const MAY_READ: ReadonlySet<string> = new Set(["ACTIVE", "SUSPENDED"]);

/** Who of `playerIds` may still read the channel, in one statement. */
export const findReaders = async (
  { db, now }: Work,
  { projectId, channelId }: ChannelRef,
  playerIds: readonly string[],
): Promise<Set<string>> => {
  const found = await sql<Row>`
    select p.id as player_id, c.kind, c.read_only_at, p.status,
      (m.player_id is not null and m.left_at is null) as is_listed, l.player_id is not null as is_in_lobby,
      exists (select 1 from chat_sanctions s where s.project_id = c.project_id and s.player_id = p.id
        and s.kind = 'BAN' and s.revoked_at is null and (s.channel_id is null or s.channel_id = c.id)
        and (s.expires_at is null or s.expires_at > ${now.toISOString()}::timestamptz)) as is_banned
    from unnest(${`{${playerIds.join(",")}}`}::uuid[]) as u(id)
    join players p on p.project_id = ${projectId} and p.id = u.id
    join chat_channels c on c.project_id = ${projectId} and c.id = ${channelId}
    left join chat_members m on m.project_id = ${projectId} and m.channel_id = c.id and m.player_id = p.id
    left join lobby_members l on l.project_id = ${projectId} and l.lobby_id = c.lobby_id
      and l.player_id = p.id and l.is_active`.execute(db);
  const may = found.rows.filter((row) => {
    const closedMs = row.read_only_at === null ? null : new Date(row.read_only_at).getTime();
    const { kind, is_listed: isListed, is_in_lobby: isInLobby } = row;
    const isIn = isMember({ kind, closedMs, isListed, isInLobby }, now.getTime());
    return isIn && !row.is_banned && MAY_READ.has(row.status);
  });
  return new Set(may.map((row) => row.player_id));
};
