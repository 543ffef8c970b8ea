import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { Player } from "../players/player.ts";
import { kept } from "../kernel/statements.ts";
import { noHoldings, nothingDirty, type PlayerState } from "../evaluation/player-state.ts";

/** A player by the integrator's id. */
export type ExternalRef = { projectId: string; externalUserId: string };

export const externalKey = ({ projectId, externalUserId }: ExternalRef): string =>
  `${projectId}\0${externalUserId}`;

/** What evaluation reads of a player's row. */
type PlayerRow = Omit<Player, "avatarUrl" | "metadata" | "updatedAt"> & { activeMonth?: number | null };

/** SQL of the columns of a player's row, of the table `t`. */
export const COLUMNS = sql.raw(`t.id, t.project_id as "projectId", t.external_user_id as "externalUserId",
  t.display_name as "displayName", t.status, t.xp, t.level, t.seq, t.ledger_seq as "ledgerSeq",
  t.ledger_hash as "ledgerHash", t.lives, t.lives_anchor_at as "livesAnchorAt",
  t.lives_unlimited_until as "livesUnlimitedUntil", t.zone_changed_at as "zoneChangedAt",
  t.merged_into as "mergedInto", t.deleted_at as "deletedAt", t.timezone, t.locale, t.country, t.attributes,
  t.tags, t.created_at as "createdAt", t.first_seen_at as "firstSeenAt", t.last_seen_at as "lastSeenAt",
  t.active_month as "activeMonth"`);

/** A row with the name or id it was requested by: its own, or that of a player merged into it. */
export type FoundRow = PlayerRow & { ref: string };

/** SQL for players by requested name: `n` has the names of the merge targets. */
const namedBy = (refs: readonly ExternalRef[]) => {
  const wanted = refs.map(({ projectId, externalUserId }) => ({ p: projectId, u: externalUserId }));
  return sql`r as materialized (
      select * from json_to_recordset(${JSON.stringify(wanted)}::json) as r(p uuid, u text)),
    m as materialized (
      select r.p, r.u, x.external_user_id as name from r
      join players s on s.project_id = r.p and s.external_user_id = r.u and s.merged_into is not null
      join players x on x.project_id = s.project_id and x.id = s.merged_into),
    n as materialized (
      select r.p, r.u, coalesce(m.name, r.u) as name from r left join m on m.p = r.p and m.u = r.u)`;
};

const keyOfRef = (row: FoundRow): string =>
  externalKey({ projectId: row.projectId, externalUserId: row.ref });

/**
 * Locks existing players in id order and reads them, in one statement. A merged player resolves to its merge
 * target, so one player may stand for several of `refs`. The rows of merged players are not locked: only the
 * order of the target rows matters to avoid deadlocks. Row security allows only a plain column to be looked
 * up in the index.
 * @returns the players by the `externalKey` of each request. A player that is renamed concurrently may be
 * missing, and is found by the next request
 */
export const lockPlayers = async (
  work: Work,
  refs: readonly ExternalRef[],
): Promise<Map<string, PlayerState>> => {
  const result = await kept(
    work.db,
    sql<FoundRow>`
    with ${namedBy(refs)}
    select ${COLUMNS}, n.u as ref
    from n join players t on t.project_id = n.p and t.external_user_id = n.name
    order by t.project_id, t.id for update of t`,
  );
  return playersOf(work, result.rows, keyOfRef);
};

/**
 * As `lockPlayers`, without waiting for locked players.
 * @returns the players that were free, and the `refs` whose players are locked by others
 */
export const lockFreePlayers = async (
  work: Work,
  refs: readonly ExternalRef[],
): Promise<{ players: Map<string, PlayerState>; held: ExternalRef[] }> => {
  const result = await kept(
    work.db,
    sql<FoundRow | { id: null; of: string; name: string; held: boolean }>`
    with ${namedBy(refs)},
    k as materialized (
      select ${COLUMNS}, n.u as ref
      from n join players t on t.project_id = n.p and t.external_user_id = n.name
      for update of t skip locked)
    select k.*, n.p as of, n.u as name, k.id is null and exists (
      select 1 from players x where x.project_id = n.p and x.external_user_id = n.name) as held
    from n left join k on k."projectId" = n.p and k.ref = n.u`,
  );
  const free = result.rows.filter((row) => row.id !== null);
  const held = result.rows.flatMap((row) =>
    row.id === null && row.held ? [{ projectId: row.of, externalUserId: row.name }] : [],
  );
  return { players: await playersOf(work, free, keyOfRef), held };
};

/** As `lockPlayers`, by id; keyed by the ids requested. */
export const lockPlayersById = async (
  work: Work,
  projectId: string,
  ids: readonly string[],
): Promise<Map<string, PlayerState>> => {
  const result = await sql<FoundRow>`
    with s as materialized (
      select s.id::text as ref, coalesce(s.merged_into, s.id) as id
      from unnest(${`{${ids.join(",")}}`}::uuid[]) as r(i)
      join players s on s.project_id = ${projectId} and s.id = r.i)
    select ${COLUMNS}, s.ref
    from s join players t on t.project_id = ${projectId} and t.id = s.id
    order by t.project_id, t.id for update of t`.execute(work.db);
  return playersOf(work, result.rows, ({ ref }) => ref);
};

/**
 * Maps locked rows to players by key. A row that was merged while its lock was waited for is resolved to its
 * merge target.
 */
export const playersOf = async (
  work: Work,
  rows: readonly FoundRow[],
  keyOf: (row: FoundRow) => string,
): Promise<Map<string, PlayerState>> => {
  const found = new Map<string, PlayerState>();
  const byId = new Map<string, PlayerState>();
  const moved: FoundRow[] = [];
  for (const row of rows) {
    if (row.mergedInto != null) moved.push(row);
    else {
      const player = byId.get(row.id) ?? stateOfPlayer(row);
      byId.set(row.id, player);
      found.set(keyOf(row), player);
    }
  }
  for (const row of moved) {
    const targetId = row.mergedInto!;
    const target =
      byId.get(targetId) ?? (await lockPlayersById(work, row.projectId, [targetId])).get(targetId);
    if (!target) continue;
    byId.set(targetId, target).set(target.id, target);
    found.set(keyOf(row), target);
  }
  return found;
};

/** Reads one player (or its merge target) without a lock, for simulation. */
export const readPlayer = async (work: Work, ref: ExternalRef): Promise<PlayerState | undefined> => {
  const result = await sql<PlayerRow>`
    select ${COLUMNS} from players t
    where t.project_id = ${ref.projectId} and t.id = (
      select coalesce(s.merged_into, s.id) from players s
      where s.project_id = ${ref.projectId} and s.external_user_id = ${ref.externalUserId})`.execute(work.db);
  return result.rows[0] && stateOfPlayer(result.rows[0]);
};

/** Cursor of a page of players by id: created after it, or created before it with the newest first. */
export type PlayersFrom = { after: string } | { before: string };

/** Reads a page of players without locks, except merged and erased ones. */
export const readPlayersPage = async (
  work: Work,
  projectId: string,
  from: PlayersFrom,
  limit: number,
): Promise<PlayerState[]> => {
  const page =
    "after" in from
      ? sql`t.id > ${from.after}::uuid order by t.id`
      : sql`t.id < ${from.before}::uuid order by t.id desc`;
  const result = await sql<PlayerRow>`
    select ${COLUMNS} from players t
    where t.project_id = ${projectId} and t.status not in ('MERGED', 'ERASED') and ${page}
    limit ${limit}`.execute(work.db);
  return result.rows.map(stateOfPlayer);
};

type NewPlayer = ExternalRef & { id: string };

/** Inserts the players that do not exist yet and returns the ids inserted, in one statement. */
export const insertPlayers = async (work: Work, players: readonly NewPlayer[]): Promise<Set<string>> => {
  const rows = players.map(({ id, projectId, externalUserId }) => ({
    i: id,
    p: projectId,
    u: externalUserId,
  }));
  const result = await kept(
    work.db,
    sql<{ id: string }>`
    insert into players (project_id, id, external_user_id, created_at, updated_at)
    select p, i, u, ${work.now.toISOString()}::timestamptz, ${work.now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(i uuid, p uuid, u text) order by p, u
    on conflict do nothing returning id`,
  );
  return new Set(result.rows.map((row) => row.id));
};

const orNull = <T>(value: T | null | undefined): T | null => value ?? null;
const msOf = (at: Date | null | undefined): number | null => at?.getTime() ?? null;

/** Converts a player, as read, to evaluation's state with no holdings loaded. */
export const stateOfPlayer = (row: PlayerRow): PlayerState => ({
  id: row.id,
  projectId: row.projectId,
  externalUserId: row.externalUserId,
  displayName: orNull(row.displayName),
  status: row.status,
  ...(row.deletedAt == null ? {} : { isDeleted: true }),
  xp: row.xp,
  level: row.level,
  seq: row.seq,
  ledgerSeq: row.ledgerSeq,
  ledgerHash: orNull(row.ledgerHash),
  lives: {
    count: orNull(row.lives),
    anchorMs: msOf(row.livesAnchorAt),
    unlimitedUntilMs: msOf(row.livesUnlimitedUntil),
  },
  zoneChangedMs: msOf(row.zoneChangedAt),
  timezone: orNull(row.timezone),
  locale: orNull(row.locale),
  country: orNull(row.country),
  attributes: row.attributes,
  tags: row.tags,
  createdAt: row.createdAt,
  firstSeenAt: orNull(row.firstSeenAt),
  lastSeenAt: orNull(row.lastSeenAt),
  activeMonth: orNull(row.activeMonth),
  ...emptyHoldings(),
});

/** The initial state of a player besides the row. */
export const emptyHoldings = () => ({
  doc: {},
  docSize: { bytes: 0, isExact: false, isPruned: false },
  lists: new Map(),
  moments: [],
  ...noHoldings(),
  dirty: nothingDirty(),
});
