import { sql } from "kysely";
import type { Json } from "../kernel/events/events.ts";
import type { Work } from "../kernel/work.ts";
import type { Ranked } from "../evaluation/boards/ranks.ts";

/** A ranked player, as everybody may see them. */
export type Name = { externalUserId: string; displayName: string | null; avatarUrl: string | null };

type NameRow = {
  id: string;
  external_user_id: string;
  display_name: string | null;
  avatar_url: string | null;
};

const nameOf = (row: NameRow): Name => ({
  externalUserId: row.external_user_id,
  displayName: row.display_name,
  avatarUrl: row.avatar_url,
});

const uuids = (standings: readonly Pick<Ranked, "playerId">[]): string =>
  `{${standings.map(({ playerId }) => playerId).join(",")}}`;

/** Returns names by player id; banned, deleted, merged or erased players are hidden and have none. */
export const readNames = async (
  { db }: Work,
  projectId: string,
  standings: readonly Pick<Ranked, "playerId">[],
): Promise<Map<string, Name>> => {
  if (standings.length === 0) return new Map();
  const result = await sql<NameRow>`
    select id, external_user_id, display_name, avatar_url from players
    where project_id = ${projectId} and id = any(${uuids(standings)}::uuid[])
      and status not in ('BANNED', 'MERGED', 'ERASED') and deleted_at is null`.execute(db);
  return new Map(result.rows.map((row) => [row.id, nameOf(row)]));
};

/** Data of a player in a list beside the score: the ranks of the last notices, and the score's metadata. */
export type ListedPlayer = {
  name: Name;
  notified: number | null;
  notifiedBefore: number | null;
  meta: Json | null;
};

/** A row of a player in a list. */
export type KeptRow = NameRow & {
  notified: number | null;
  notified_before: number | null;
  meta: Json | null;
};

export const listedOf = (row: KeptRow): ListedPlayer => ({
  name: nameOf(row),
  notified: row.notified,
  notifiedBefore: row.notified_before,
  meta: row.meta,
});

/** As `readNames`, with each player's data in the list. */
export const readListedPlayers = async (
  { db }: Work,
  { projectId, periodId }: { projectId: string; periodId: string },
  standings: readonly Pick<Ranked, "playerId">[],
): Promise<Map<string, ListedPlayer>> => {
  if (standings.length === 0) return new Map();
  const result = await sql<KeptRow>`
    select p.id, p.external_user_id, p.display_name, p.avatar_url, n.rank as notified,
      n.previous_rank as notified_before, e.meta
    from players p
    left join leaderboard_notices n on n.project_id = p.project_id and n.period_id = ${periodId}::uuid
      and n.player_id = p.id and n.told_at is not null
    left join leaderboard_entries e on e.project_id = p.project_id and e.period_id = ${periodId}::uuid
      and e.player_id = p.id
    where p.project_id = ${projectId} and p.id = any(${uuids(standings)}::uuid[])
      and p.status not in ('BANNED', 'MERGED', 'ERASED') and p.deleted_at is null`.execute(db);
  return new Map(result.rows.map((row) => [row.id, listedOf(row)]));
};
