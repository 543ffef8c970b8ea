import { ranksPart, ageOfId } from "../kernel/ids.ts";
import type { Read } from "../kernel/read.ts";
import type { Leaderboard } from "../progression/leaderboard.ts";
import type { AskedList, ListRow } from "./board-list.ts";
import { type KeptRow, type ListedPlayer, listedOf } from "./names.ts";

/** What the database says about a list, whoever is on it. */
export type ListFacts = {
  configVersion: string;
  /** The list's row; undefined before it has one. */
  row: ListRow | undefined;
  /** Age of the oldest change that the rank index does not contain yet, in s. */
  behindSeconds: number;
};

type FactsRow = Omit<ListRow, "id"> & {
  config_version: string | number;
  list_id: string | null;
  waiting: string | null;
};

const LIST = `
  select j.config_version, w.id as list_id, w.starts_at, w.ends_at, coalesce(w.status, 'OPEN') as status,
    coalesce(w.participants, 0) as participants,
    (select k.outbox_ids[1] from outbox_q k where k.project_id = $1::uuid and k.part = $2::smallint
      order by k.seq limit 1) as waiting
  from projects j
  left join leaderboard_periods w on w.project_id = $1::uuid and w.leaderboard_id = $3::uuid
    and w.period_key = $4::text and w.board = $5::text
  where j.id = $1::uuid`;

/** Reads what is known of a list; undefined without the project. */
export const readListFacts = async (
  read: Read,
  { leaderboard: { projectId, id }, asked }: { leaderboard: Leaderboard; asked: AskedList },
): Promise<ListFacts | undefined> => {
  const values = [projectId, ranksPart(projectId), id, asked.key, asked.board];
  const [found] = await read<FactsRow>({ text: LIST, values });
  if (!found) return undefined;
  const { config_version: version, waiting, list_id: listId, ...row } = found;
  const { starts_at, ends_at, status, participants } = row;
  return {
    configVersion: String(version),
    row: listId === null ? undefined : { id: listId, starts_at, ends_at, status, participants },
    behindSeconds: waiting === null ? 0 : Math.floor(ageOfId(waiting) / 1_000),
  };
};

/**
 * The plan does not hang on statistics: each player is looked up by primary keys, which `limit 1` keeps the
 * planner from turning into a join.
 */
const PLAYERS = `
  select p.id, p.external_user_id, p.display_name, p.avatar_url, n.rank as notified,
    n.previous_rank as notified_before, e.meta
  from unnest($3::uuid[]) as u(id)
  cross join lateral (
    select id, external_user_id, display_name, avatar_url from players
    where project_id = $1::uuid and id = u.id and status not in ('BANNED', 'MERGED', 'ERASED')
      and deleted_at is null limit 1) p
  left join lateral (
    select rank, previous_rank from leaderboard_notices
    where project_id = $1::uuid and period_id = $2::uuid and player_id = u.id
      and told_at is not null limit 1) n on true
  left join lateral (
    select meta from leaderboard_entries
    where project_id = $1::uuid and period_id = $2::uuid and player_id = u.id limit 1) e on true`;

/** As `readListedPlayers`, as one statement alone. */
export const readPlayersOf = async (
  read: Read,
  { projectId, periodId }: { projectId: string; periodId: string },
  playerIds: readonly string[],
): Promise<ReadonlyMap<string, ListedPlayer>> => {
  if (playerIds.length === 0) return new Map();
  const values = [projectId, periodId, `{${playerIds.join(",")}}`];
  const rows = await read<KeptRow>({ text: PLAYERS, values });
  return new Map(rows.map((row) => [row.id, listedOf(row)]));
};

/** By id, then by external id; a player who was merged stands for the other. */
const RESOLVE = `
  select coalesce(q.merged_into, q.id) as id from players q
  where q.project_id = $1::uuid and (q.id = $2::uuid or q.external_user_id = $3::text)`;

/** A player by id or external id, as a query names them. */
export type PlayerRef = { id: string | null; externalUserId: string | null };

/** Returns the id of a player whom a query names; undefined for an unknown one. */
export const resolvePlayer = async (
  read: Read,
  projectId: string,
  { id, externalUserId }: PlayerRef,
): Promise<string | undefined> => {
  const rows = await read<{ id: string }>({ text: RESOLVE, values: [projectId, id, externalUserId] });
  return rows[0]?.id;
};
