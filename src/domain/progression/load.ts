import { sql } from "kysely";
import type { Json } from "../events.ts";
import type { Work } from "../work.ts";
import type { EntryState, PlayerDoc, PlayerState } from "./turn.ts";

/** A player by the integrator's id. */
export type ExternalRef = { projectId: string; externalUserId: string };

export const externalKey = ({ projectId, externalUserId }: ExternalRef): string =>
  `${projectId}\0${externalUserId}`;

type PlayerRow = {
  id: string;
  project_id: string;
  external_user_id: string;
  display_name: string | null;
  status: PlayerState["status"];
  xp: string | number;
  level: number;
  seq: string | number;
  ledger_seq: string | number;
  timezone: string | null;
  locale: string | null;
  country: string | null;
  attributes: Json;
  tags: string[];
  created_at: Date | string;
  last_seen_at: Date | string | null;
};

const COLUMNS = sql.raw(
  [
    "id",
    "project_id",
    "external_user_id",
    "display_name",
    "status",
    "xp",
    "level",
    "seq",
    "ledger_seq",
    "timezone",
  ]
    .concat("locale", "country", "attributes", "tags", "created_at", "last_seen_at")
    .map((name) => `t.${name}`)
    .join(", "),
);

/** Locks the players that exist, in id order, and reads them: one statement. */
export const lockPlayers = async (work: Work, refs: readonly ExternalRef[]): Promise<PlayerState[]> => {
  const wanted = refs.map(({ projectId, externalUserId }) => ({ p: projectId, u: externalUserId }));
  const result = await sql<PlayerRow>`
    select ${COLUMNS} from players t
    join json_to_recordset(${JSON.stringify(wanted)}::json) as r(p uuid, u text)
      on t.project_id = r.p and t.external_user_id = r.u
    order by t.project_id, t.id for update of t`.execute(work.db);
  return result.rows.map(stateOf);
};

/** Locks one player by id; undefined when the project has none. */
export const lockPlayer = async (
  work: Work,
  projectId: string,
  playerId: string,
): Promise<PlayerState | undefined> => {
  const result = await sql<PlayerRow>`
    select ${COLUMNS} from players t
    where t.project_id = ${projectId} and t.id = ${playerId} for update`.execute(work.db);
  return result.rows[0] && stateOf(result.rows[0]);
};

/** Reads one player without a lock, for simulation. */
export const readPlayer = async (work: Work, ref: ExternalRef): Promise<PlayerState | undefined> => {
  const result = await sql<PlayerRow>`
    select ${COLUMNS} from players t
    where t.project_id = ${ref.projectId} and t.external_user_id = ${ref.externalUserId}`.execute(work.db);
  return result.rows[0] && stateOf(result.rows[0]);
};

type NewPlayer = ExternalRef & { id: string };

/** Creates players that do not exist yet and answers the ids of those it made: one statement. */
export const insertPlayers = async (work: Work, players: readonly NewPlayer[]): Promise<Set<string>> => {
  const rows = players.map(({ id, projectId, externalUserId }) => ({
    i: id,
    p: projectId,
    u: externalUserId,
  }));
  const result = await sql<{ id: string }>`
    insert into players (project_id, id, external_user_id, created_at, updated_at)
    select p, i, u, ${work.now.toISOString()}::timestamptz, ${work.now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(i uuid, p uuid, u text) order by p, u
    on conflict do nothing returning id`.execute(work.db);
  return new Set(result.rows.map((row) => row.id));
};

const asDate = (value: Date | string): Date => (value instanceof Date ? value : new Date(value));

const stateOf = (row: PlayerRow): PlayerState => ({
  id: row.id,
  projectId: row.project_id,
  externalUserId: row.external_user_id,
  displayName: row.display_name,
  status: row.status,
  xp: Number(row.xp),
  level: row.level,
  seq: Number(row.seq),
  ledgerSeq: Number(row.ledger_seq),
  timezone: row.timezone,
  locale: row.locale,
  country: row.country,
  attributes: row.attributes,
  tags: row.tags,
  createdAt: asDate(row.created_at),
  lastSeenAt: row.last_seen_at === null ? null : asDate(row.last_seen_at),
  doc: {},
  entries: new Map(),
  dirty: { profile: false, doc: false, entries: new Set() },
});

type StateRow = { k: "d" | "e"; project_id: string; player_id: string; period_id: string | null; r: unknown };

/**
 * Loads what evaluation may touch of `players`: limit state, and entries of the open periods. One statement,
 * by primary key only.
 */
export const loadStates = async (
  work: Work,
  players: readonly PlayerState[],
  periodIds: readonly string[],
): Promise<void> => {
  const byId = new Map(players.map((player) => [`${player.projectId}${player.id}`, player]));
  const rows = JSON.stringify(players.map(({ id, projectId }) => ({ i: id, p: projectId })));
  const result = await sql<StateRow>`
    with r as materialized (select * from json_to_recordset(${rows}::json) as r(i uuid, p uuid))
    select 'd' as k, s.project_id, s.player_id, null::uuid as period_id, s.doc as r
    from r cross join lateral (
      select * from player_states s where s.project_id = r.p and s.player_id = r.i limit 1) s
    union all
    select 'e', e.project_id, e.player_id, e.period_id,
      jsonb_build_array(e.rank_score, e.rank_tie, e.latest_us, e.version)
    from r cross join unnest(${`{${periodIds.join(",")}}`}::uuid[]) as w(period_id)
    cross join lateral (
      select * from leaderboard_entries e
      where e.project_id = r.p and e.period_id = w.period_id and e.player_id = r.i limit 1) e`.execute(
    work.db,
  );
  for (const row of result.rows) {
    const player = byId.get(`${row.project_id}${row.player_id}`)!;
    if (row.k === "d") player.doc = row.r as PlayerDoc;
    else player.entries.set(row.period_id!, entryOf(row.r as [number, number, number, number]));
  }
};

const entryOf = ([rankScore, rankTie, latestUs, version]: [number, number, number, number]): EntryState => ({
  rankScore,
  rankTie,
  latestUs,
  version,
});
