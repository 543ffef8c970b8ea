import { ranksPart, timeOfId } from "../kernel/ids.ts";
import type { Read } from "../kernel/read.ts";
import type { Leaderboard } from "../progression/leaderboard.ts";
import type { AskedList, ListRow } from "./board-list.ts";
import { type KeptRow, type ListedPlayer, listedOf } from "./names.ts";

/** A player by id or external id, as a query names them. */
export type PlayerRef = { id: string | null; externalUserId: string | null };

/** What is asked about a list: `playerIds` are those on it, `refs` those whom the query names. */
export type FactsQuery = {
  leaderboard: Leaderboard;
  asked: AskedList;
  periodId: string;
  playerIds: readonly string[];
  refs: readonly PlayerRef[];
};

/** What the database says about a list at one moment. */
export type Facts = {
  configVersion: string;
  /** The list's row; undefined before it has one. */
  row: ListRow | undefined;
  /** Age of the oldest change that the rank index does not contain yet, in s. */
  behindSeconds: number;
  /** Ids of the players named by `refs`, in order; null for an unknown one. */
  refIds: (string | null)[];
  players: ReadonlyMap<string, ListedPlayer>;
};

type FactsRow = Omit<ListRow, "id"> & {
  config_version: string | number;
  list_id: string | null;
  waiting: string | null;
  ref_0: string | null;
  ref_1: string | null;
} & (KeptRow | { id: null });

/** By id, then by external id; a player who was merged stands for the other. Each is one look into an index. */
const refColumn = (n: number): string => {
  const [id, externalId] = [`$${7 + 2 * n}::uuid`, `$${8 + 2 * n}::text`];
  const find = (condition: string): string =>
    `(select coalesce(q.merged_into, q.id) from players q where q.project_id = $1::uuid and ${condition})`;
  return `coalesce(${find(`q.id = ${id}`)}, ${find(`q.external_user_id = ${externalId}`)}) as ref_${n}`;
};

/**
 * One statement for everything, whose plan does not hang on statistics: each player is looked up by primary
 * keys, which `limit 1` keeps the planner from turning into a join.
 */
const textFor = (refs: number): string => `
  select j.config_version, w.id as list_id, w.starts_at, w.ends_at, coalesce(w.status, 'OPEN') as status,
    coalesce(w.participants, 0) as participants,
    (select k.outbox_ids[1] from outbox_q k where k.project_id = $1::uuid and k.part = $2::smallint
      order by k.seq limit 1) as waiting,
    ${refs > 0 ? refColumn(0) : "null as ref_0"}, ${refs > 1 ? refColumn(1) : "null as ref_1"},
    p.id, p.external_user_id, p.display_name, p.avatar_url, n.rank as notified,
    n.previous_rank as notified_before, e.meta
  from projects j
  left join lateral (
    select id, starts_at, ends_at, status, participants from leaderboard_periods
    where project_id = j.id and leaderboard_id = $3::uuid and period_key = $4::text and board = $5::text
    limit 1) w on true
  left join unnest($6::uuid[]) as u(id) on true
  left join lateral (
    select id, external_user_id, display_name, avatar_url from players
    where project_id = $1::uuid and id = u.id and status not in ('BANNED', 'MERGED', 'ERASED')
      and deleted_at is null limit 1) p on true
  left join lateral (
    select rank, previous_rank from leaderboard_notices
    where project_id = $1::uuid and period_id = $${7 + 2 * refs}::uuid and player_id = p.id
      and told_at is not null limit 1) n on true
  left join lateral (
    select meta from leaderboard_entries
    where project_id = $1::uuid and period_id = $${7 + 2 * refs}::uuid and player_id = p.id limit 1) e on true
  where j.id = $1::uuid`;

const TEXTS = [0, 1, 2].map(textFor);

/** Reads everything about a list but the ranks, with one statement; undefined without the project. */
export const readFacts = async (read: Read, now: Date, query: FactsQuery): Promise<Facts | undefined> => {
  const { leaderboard, asked, periodId, playerIds, refs } = query;
  const { projectId, id } = leaderboard;
  const named = refs.flatMap((ref) => [ref.id, ref.externalUserId]);
  const list = [projectId, ranksPart(projectId), id, asked.key, asked.board];
  const rows = await read<FactsRow>({
    text: TEXTS[refs.length]!,
    values: [...list, `{${playerIds.join(",")}}`, ...named, periodId],
  });
  const first = rows[0];
  if (!first) return undefined;
  const { waiting, list_id: listId, starts_at, ends_at, status, participants } = first;
  return {
    configVersion: String(first.config_version),
    row: listId === null ? undefined : { id: listId, starts_at, ends_at, status, participants },
    behindSeconds:
      waiting === null ? 0 : Math.max(0, Math.floor((now.getTime() - timeOfId(waiting)) / 1_000)),
    refIds: [first.ref_0, first.ref_1].slice(0, refs.length),
    players: new Map(rows.flatMap((row) => (row.id === null ? [] : [[row.id, listedOf(row)] as const]))),
  };
};
