import { type RawBuilder, sql } from "kysely";
import { conflict } from "../kernel/errors.ts";
import { markLists } from "../evaluation/boards/lists.ts";
import { Pace } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";
import { kept } from "../kernel/statements.ts";
import { shrinkDoc } from "../evaluation/turn.ts";
import { docPart, type Loadable, type LoadedRow, type PlayerPart } from "./parts/part.ts";
import { PLAYER_PARTS } from "./parts/player-parts.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";

/** Bytes of documents, as JSON, that a claim or a page of players loads: some tens of MB in memory. */
export const PAGE_BYTES_MAX = 4 * 1024 * 1024;
/** Bytes of documents that a request loads when it changes many players at once. */
export const REQUEST_BYTES_MAX = 32 * 1024 * 1024;
/** Rows loaded for several players at once, besides their documents. */
export const LOADED_ROWS_MAX = 100_000;
/**
 * Maximum ratio of a document's JSON size to its stored size, for documents whose byte count was not
 * recorded: those of rolling windows compress 13 to 1.
 */
const UNCOMPRESSED = 24;
/** Bytes of a document, of a row `s` of `player_states` if there is one. */
const DOC_BYTES = sql`coalesce(s.bytes, ${sql.lit(UNCOMPRESSED)} * pg_column_size(s.doc), 0)`;

/** `bytesMax`: of documents; `rowsMax`: of all other rows. The limits do not apply to a single player. */
export type LoadLimits = { bytesMax: number; rowsMax: number };

/** Tag of the row that counts the players whose documents fit. */
const COUNT_TAG = "n";

/** SQL for the leading players whose documents total at most `bytesMax`: `r(n, i, p, doc, bytes)`. */
const playersWithDocs = (rows: string, bytesMax: number): RawBuilder<unknown> => sql`
  q as materialized (select * from json_to_recordset(${rows}::json) as q(n int, i uuid, p uuid)),
  z as materialized (
    select q.n, q.i, q.p, s.doc,
      ${DOC_BYTES} as bytes
    from q left join lateral (
      select doc, bytes from player_states s
      where s.project_id = q.p and s.player_id = q.i limit 1) s on true),
  r as materialized (
    select n, i, p, doc, bytes from (select z.*, sum(bytes) over (order by n) as upto from z) z
    where n = 0 or upto <= ${bytesMax}::bigint)`;

const playersAlone = (rows: string): RawBuilder<unknown> => sql`
  r as materialized (select * from json_to_recordset(${rows}::json) as r(n int, i uuid, p uuid))`;

/**
 * Loads the state of `players` that evaluation under `plans` may touch, besides their rows: one statement, by
 * primary keys only. An oversized document loses the parts that nothing reads any more.
 * @returns the number of leading players loaded; undefined when there were more than `rowsMax` rows: then
 * nothing was loaded
 */
export const loadFirst = async (
  work: Work,
  players: readonly PlayerState[],
  plans: readonly ProjectPlan[],
  { parts, isRare, ...limits }: LoadLimits & { parts: readonly Loadable[]; isRare?: boolean },
): Promise<number | undefined> => {
  if (players.length === 0) return 0;
  const { bytesMax, rowsMax } = players.length > 1 ? limits : UNLIMITED;
  const plansById = new Map(plans.map((plan) => [plan.projectId, plan]));
  await nameLists(work, players, plansById);
  const rows = JSON.stringify(players.map(({ id, projectId }, n) => ({ n, i: id, p: projectId })));
  const from = parts.includes(docPart) ? playersWithDocs(rows, bytesMax) : playersAlone(rows);
  const loads = [
    sql`select ${sql.lit(COUNT_TAG)}, -1, (select count(*) from r)::text, null::json`,
    ...parts.map((part) => part.load(plans, players)),
  ];
  const query = sql<LoadedRow>`
    with ${from},
    s(k, n, ref, r) as (${sql.join(loads, sql` union all `)})
    select * from s limit ${rowsMax + players.length + 1}::bigint`;
  const result = await run(work, query, isRare);
  if (result.rows.length > rowsMax + players.length) return undefined;
  const byTag = new Map(parts.map((part) => [part.tag, part]));
  let count = 0;
  for (const { k, n, ref, r } of result.rows) {
    if (k === COUNT_TAG) count = Number(ref);
    else byTag.get(k)!.read(players[n]!, ref ?? "", r);
  }
  for (const player of players.slice(0, count)) {
    const plan = plansById.get(player.projectId);
    if (plan) shrinkDoc(plan, player);
  }
  return count;
};

/** Loads players of any number: as many by one statement as may be loaded together. */
export const loadInParts = async (
  work: Work,
  players: readonly PlayerState[],
  plans: readonly ProjectPlan[],
): Promise<void> => {
  const limits = { bytesMax: REQUEST_BYTES_MAX, rowsMax: REQUEST_ROWS_MAX, parts: partsFor(plans) };
  let [rest, size] = [players, players.length];
  while (rest.length > 0) {
    const loaded = await loadFirst(work, rest.slice(0, size), plans, limits);
    if (loaded === undefined) size = Math.ceil(size / 2);
    else rest = rest.slice(loaded);
  }
};

/** Runs a statement, prepared unless it is one of many that are seldom used. */
const run = (work: Work, query: RawBuilder<LoadedRow>, isRare: boolean | undefined) =>
  isRare === true ? query.execute(work.db) : kept(work.db, query);

/** Limits that are never reached. */
const UNLIMITED: LoadLimits = { bytesMax: Number.MAX_SAFE_INTEGER, rowsMax: 1_000_000_000 };

const nameLists = async (
  work: Work,
  players: readonly PlayerState[],
  plans: ReadonlyMap<string, ProjectPlan>,
): Promise<void> => {
  const pace = new Pace();
  for (const player of players) {
    const { boards = [] } = plans.get(player.projectId) ?? {};
    await pace.run(markLists(boards, player, { moments: player.moments, nowMs: work.now.getTime() }));
  }
};

/** Returns the player parts that evaluation under the plans may touch. */
export const partsFor = (plans: readonly ProjectPlan[]): PlayerPart[] =>
  PLAYER_PARTS.filter((part) => plans.some((plan) => part.isNeeded(plan)));

/**
 * As `loadFirst`, for all players or none.
 * @param parts the parts to load; a merge takes all, including those of archived definitions
 * @throws DomainError CONFLICT TOO_MUCH_AT_ONCE when the players have too much state to be loaded together
 */
export const loadStates = async (
  work: Work,
  players: readonly PlayerState[],
  plans: readonly ProjectPlan[],
  parts: readonly Loadable[] = partsFor(plans),
): Promise<void> => {
  const limits = { bytesMax: REQUEST_BYTES_MAX, rowsMax: REQUEST_ROWS_MAX };
  const count = await loadFirst(work, players, plans, { parts, ...limits });
  if (count !== players.length)
    throw conflict(
      "TOO_MUCH_AT_ONCE",
      "these players have too much data for one request: name fewer of them",
    );
};

/** As LOADED_ROWS_MAX, for the players named in a request. */
const REQUEST_ROWS_MAX = 2 * LOADED_ROWS_MAX;

/**
 * As `loadFirst`, for a page of players that may be cut short.
 * @returns the players loaded, at least one unless the page is empty
 */
export const loadPage = async (
  work: Work,
  page: readonly PlayerState[],
  plan: ProjectPlan,
  parts: readonly PlayerPart[] = partsFor([plan]),
): Promise<PlayerState[]> => {
  for (let size = page.length; ; size = Math.ceil(size / 2)) {
    const some = page.slice(0, size);
    const limits = { bytesMax: PAGE_BYTES_MAX, rowsMax: LOADED_ROWS_MAX };
    const count = await loadFirst(work, some, [plan], { parts, ...limits });
    if (count !== undefined) return some.slice(0, count);
  }
};

/** Estimated bytes of a row besides the document. */
const ROW_BYTES = 100;

const rowsOf = (table: string, projectId: string): RawBuilder<unknown> => sql`(
  select ${sql.lit(ROW_BYTES)} * count(*) from ${sql.table(table)} t
  where t.project_id = ${projectId} and t.player_id = p.id)`;

/**
 * Returns the leading players, by id, whose documents, lots and badges fit into one page: at least one unless
 * the list is empty. Merged players stand for the player they were merged into.
 */
export const fittingPlayers = async (
  { db }: Work,
  projectId: string,
  ids: readonly string[],
): Promise<string[]> => {
  if (ids.length < 2) return [...ids];
  const { rows } = await sql<{ n: number }>`
    select count(*) as n from (
      select o, sum(${DOC_BYTES} + ${rowsOf("currency_lots", projectId)} + ${rowsOf("player_badges", projectId)})
        over (order by o) as upto
      from unnest(${`{${ids.join(",")}}`}::uuid[]) with ordinality as u(i, o)
      left join lateral (
        select coalesce(p.merged_into, p.id) as id from players p
        where p.project_id = ${projectId} and p.id = u.i limit 1) p on true
      left join lateral (
        select bytes, doc from player_states s
        where s.project_id = ${projectId} and s.player_id = p.id limit 1) s on true) x
    where o = 1 or upto <= ${PAGE_BYTES_MAX}::bigint`.execute(db);
  return ids.slice(0, rows[0]!.n);
};
