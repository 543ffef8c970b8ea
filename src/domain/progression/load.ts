import { sql } from "kysely";
import type { Json } from "../events.ts";
import type { Work } from "../work.ts";
import type { LoadedRow } from "./parts/part.ts";
import { PLAYER_PARTS } from "./parts/parts.ts";
import type { ProjectPlan } from "./plan.ts";
import { nothingDirty } from "./snapshot.ts";
import type { PlayerState } from "./turn.ts";

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
  ledger_hash: string | null;
  lives: number | null;
  lives_anchor_at: Date | string | null;
  lives_unlimited_until: Date | string | null;
  zone_changed_at: Date | string | null;
  merged_into: string | null;
  timezone: string | null;
  locale: string | null;
  country: string | null;
  attributes: Json;
  tags: string[];
  created_at: Date | string;
  last_seen_at: Date | string | null;
};

const COLUMNS = sql.raw(
  `id project_id external_user_id display_name status xp level seq ledger_seq ledger_hash lives
    lives_anchor_at lives_unlimited_until zone_changed_at merged_into timezone locale country attributes tags
    created_at last_seen_at`
    .split(/\s+/)
    .map((name) => `t.${name}`)
    .join(", "),
);

/**
 * Locks the players that exist, in id order, and reads them: one statement, and one more where a player has
 * been merged into another, who then stands for both.
 * @returns the players by `externalKey` of what was asked for; one player may stand for several
 */
export const lockPlayers = async (
  work: Work,
  refs: readonly ExternalRef[],
): Promise<Map<string, PlayerState>> => {
  const wanted = refs.map(({ projectId, externalUserId }) => ({ p: projectId, u: externalUserId }));
  const result = await sql<PlayerRow>`
    select ${COLUMNS} from players t
    join json_to_recordset(${JSON.stringify(wanted)}::json) as r(p uuid, u text)
      on t.project_id = r.p and t.external_user_id = r.u
    order by t.project_id, t.id for update of t`.execute(work.db);
  const found = new Map<string, PlayerState>();
  const byId = new Map<string, PlayerState>();
  for (const row of result.rows) {
    if (row.merged_into !== null) continue;
    const player = stateOf(row);
    byId.set(player.id, player);
    found.set(externalKey(player), player);
  }
  const merged = result.rows.filter(({ merged_into }) => merged_into !== null);
  if (merged.length > 0) await lockTargets(work, merged, byId);
  for (const row of merged) {
    const target = byId.get(row.merged_into!);
    const ref = { projectId: row.project_id, externalUserId: row.external_user_id };
    if (target) found.set(externalKey(ref), target);
  }
  return found;
};

/** Locks those whom players were merged into, but for the ones in hand. A merge ends at its target. */
const lockTargets = async (
  work: Work,
  merged: readonly PlayerRow[],
  byId: Map<string, PlayerState>,
): Promise<void> => {
  const wanted = merged
    .filter(({ merged_into }) => !byId.has(merged_into!))
    .map(({ project_id, merged_into }) => ({ p: project_id, i: merged_into }));
  const result = await sql<PlayerRow>`
    select ${COLUMNS} from players t
    where (t.project_id, t.id) in (
      select p, i from json_to_recordset(${JSON.stringify(wanted)}::json) as r(p uuid, i uuid))
    order by t.project_id, t.id for update of t`.execute(work.db);
  for (const row of result.rows) byId.set(row.id, stateOf(row));
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

/** Reads one player without a lock, for simulation: the one merged into, where there was a merge. */
export const readPlayer = async (work: Work, ref: ExternalRef): Promise<PlayerState | undefined> => {
  const result = await sql<PlayerRow>`
    select ${COLUMNS} from players t
    where t.project_id = ${ref.projectId} and t.id = (
      select coalesce(s.merged_into, s.id) from players s
      where s.project_id = ${ref.projectId} and s.external_user_id = ${ref.externalUserId})`.execute(work.db);
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

const msOf = (value: Date | string | null): number | null =>
  value === null ? null : asDate(value).getTime();

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
  ledgerHash: row.ledger_hash,
  lives: {
    count: row.lives,
    anchorMs: msOf(row.lives_anchor_at),
    unlimitedUntilMs: msOf(row.lives_unlimited_until),
  },
  zoneChangedMs: msOf(row.zone_changed_at),
  timezone: row.timezone,
  locale: row.locale,
  country: row.country,
  attributes: row.attributes,
  tags: row.tags,
  createdAt: asDate(row.created_at),
  lastSeenAt: row.last_seen_at === null ? null : asDate(row.last_seen_at),
  ...emptyHanded(),
});

/** A player who holds nothing yet, for all that is kept beside the row. */
export const emptyHanded = () => ({
  doc: {},
  entries: new Map(),
  balances: new Map(),
  lots: new Map(),
  badges: new Map(),
  streaks: new Map(),
  segments: new Map(),
  boosts: new Map(),
  dirty: nothingDirty(),
});

/**
 * Loads what evaluation under `plans` may touch of `players`, beside their rows: one statement, by primary
 * keys only.
 */
export const loadStates = async (
  work: Work,
  players: readonly PlayerState[],
  plans: readonly ProjectPlan[],
): Promise<void> => {
  if (players.length === 0) return;
  const byId = new Map(players.map((player) => [`${player.projectId}${player.id}`, player]));
  const rows = JSON.stringify(players.map(({ id, projectId }) => ({ i: id, p: projectId })));
  const parts = PLAYER_PARTS.filter((part) => plans.some((plan) => part.isNeeded(plan)));
  const result = await sql<LoadedRow>`
    with r as materialized (select * from json_to_recordset(${rows}::json) as r(i uuid, p uuid))
    ${sql.join(
      parts.map((part) => part.load(plans)),
      sql` union all `,
    )}`.execute(work.db);
  const byTag = new Map(parts.map((part) => [part.tag, part]));
  for (const { k, project_id, player_id, ref, r } of result.rows)
    byTag.get(k)!.read(byId.get(`${project_id}${player_id}`)!, ref ?? "", r);
};
