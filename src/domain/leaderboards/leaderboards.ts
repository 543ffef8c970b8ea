import { isDeepStrictEqual } from "node:util";
import { type RawBuilder, sql } from "kysely";
import { auditDefinition } from "../accounts/audit/audit.ts";
import { settingsFrom } from "../evaluation/project-settings.ts";
import { Project } from "../accounts/projects/project.ts";
import { checkActiveKey, namesOfAudience, type Reference } from "../economy/definitions/references.ts";
import { changeRunning, checkSize } from "../economy/definitions/running.ts";
import { checkBundles } from "../economy/rewards/references.ts";
import { type Board, type BoardStatus, type List, windowAt } from "../evaluation/boards/board.ts";
import {
  type Definition,
  definitionProblem,
  type LeaderboardPatch,
  type NewLeaderboard,
} from "../evaluation/boards/definition.ts";
import { BREAKDOWN_VALUE_MAX, BREAKDOWN_VALUES_MAX, listOf } from "../evaluation/boards/lists.ts";
import { inCalendar } from "../evaluation/boards/period.ts";
import type { EntrySource, Ties } from "../evaluation/boards/ranks.ts";
import { conflict, invalid, notFound } from "../kernel/errors.ts";
import type { EntryChange } from "../kernel/events/events.ts";
import { isId, newId, NIL_ID } from "../kernel/ids.ts";
import { definedOf } from "../kernel/json.ts";
import { entityOrder, offsetOf, type Ordered, type PageQuery, type SortOf } from "../kernel/paging.ts";
import { containing } from "../kernel/db.ts";
import { changeConfig, type Transact, type Work } from "../kernel/work.ts";
import { deleteEntries, fillFromEvents } from "./fill.ts";
import { makePeriods, openBoard } from "./periods/open.ts";
import { lineCause } from "../progression/save.ts";
import { boardOf, Leaderboard } from "../progression/load-plan.ts";

/**
 * Fills a board of total XP with every eligible player who has ever had XP, as if it had been there from the
 * beginning: whoever has lost all of it stands at 0. A score was reached with the player's last
 * ledger entry: at the time of its event, otherwise when it was written. Must be called under the project's
 * config lock.
 */
const fillFromXp = async (work: Work, projectId: string, board: Board): Promise<void> => {
  const lists = await listsOf(work, projectId, board);
  await makePeriods(work, projectId, lists);
  const { db, now } = work;
  const scoreSign = board.sort === "DESC" ? -1 : 1;
  const tieSign = board.ties === "LATEST" ? -1 : 1;
  const rows = JSON.stringify(lists.map(({ id, value }) => ({ id, v: value })));
  const score = sql`${scoreSign}::bigint * p.xp`;
  await sql`
    insert into leaderboard_entries
      (project_id, period_id, player_id, rank_score, rank_tie, latest_us, version, updated_at)
    select p.project_id, w.id, p.id, ${score}, ${tieSign}::bigint * r.us, r.us, 1,
      ${now.toISOString()}::timestamptz
    from players p
    join json_to_recordset(${rows}::json) as w(id uuid, v text) on w.v = ${valueOf(board)}
    left join lateral (
      select (${lineCause("x")})->>'eventId' as event_id, x.created_at from ledger_entries x
      where x.project_id = p.project_id and x.player_id = p.id and x.asset = 'XP'
      order by x.seq desc limit 1) l on true
    left join tracked_events e on e.project_id = p.project_id and e.id = l.event_id::uuid
    cross join lateral (
      select coalesce(least(e.occurred_at, l.created_at), p.created_at) as at) t
    cross join lateral (select (extract(epoch from t.at) * 1000000)::bigint as us) r
    where p.project_id = ${projectId} and ${IS_SHOWN} and (p.xp > 0 or l.created_at is not null)
      and ${audienceOf(board)}
      and ${board.minRankScore === undefined ? sql`true` : sql`${score} <= ${board.minRankScore}::bigint`}
      and not exists (select 1 from player_states s where s.project_id = p.project_id
        and s.player_id = p.id and s.doc -> 'b' @> to_jsonb(${board.id}::text))`.execute(db);
};

/** Merged and erased players are on no board. */
const IS_SHOWN = sql`p.status not in ('MERGED', 'ERASED')`;

/** The player's value of the breakdown as text; "" without one. */
const valueOf = ({ breakdownAttribute }: Board): RawBuilder<unknown> => {
  if (breakdownAttribute === undefined) return sql`''`;
  const path = `{${breakdownAttribute.split(".").join(",")}}`;
  return sql`case when jsonb_typeof(p.attributes #> ${path}) in ('string', 'number', 'boolean')
    then p.attributes #>> ${path} end`;
};

const audienceOf = ({ audience }: Board): RawBuilder<unknown> => {
  if (!audience) return sql`true`;
  const { segmentKeys, match } = audience;
  const keys = JSON.stringify(segmentKeys);
  const found = sql`(select count(*) from player_segments s
    where s.project_id = p.project_id and s.player_id = p.id
      and s.segment_key in (select json_array_elements_text(${keys}::json)))`;
  if (match === "ALL") return sql`${found} = ${new Set(segmentKeys).size}`;
  return match === "ANY" ? sql`${found} > 0` : sql`${found} = 0`;
};

/** Returns the lists of the single window: one for each value among players who have had XP. */
const listsOf = async ({ db, now }: Work, projectId: string, board: Board): Promise<List[]> => {
  const window = windowAt(board, now.getTime());
  if (!window) return [];
  if (board.breakdownAttribute === undefined) return [listOf(board, window, "")];
  const found = await sql<{ value: string }>`
    select distinct ${valueOf(board)} as value from players p
    where p.project_id = ${projectId} and ${IS_SHOWN}
      and (p.xp > 0 or exists (select from ledger_entries l
        where l.project_id = p.project_id and l.player_id = p.id and l.asset = 'XP'))
      and length(${valueOf(board)}) between 1 and ${BREAKDOWN_VALUE_MAX}
    limit ${BREAKDOWN_VALUES_MAX}`.execute(db);
  return found.rows.map(({ value }) => listOf(board, window, value));
};

/** Kinds of definitions that metrics name, by the field. */
const NAMED_BY_METRIC = [
  ["currencyKey", "currency"],
  ["streakKey", "streak"],
  ["adventureKey", "adventure"],
  ["questKey", "quest"],
] as const;

const namesOf = ({ metric, audience, entryCost }: Definition): Reference[] => [
  ...NAMED_BY_METRIC.flatMap(([field, kind]) => {
    const key = (metric as { [F in typeof field]?: string | undefined })[field];
    return key === undefined ? [] : [{ field: `metric.${field}`, kind, key }];
  }),
  ...namesOfAudience(audience),
  ...(entryCost ? [{ field: "entryCost.currencyKey", kind: "currency", key: entryCost.currencyKey }] : []),
];

/** Everything by which a leaderboard names definitions. */
const namedBy = (definition: Definition) => [namesOf(definition), definition.prizes];

/**
 * Checks that everything a leaderboard names exists in the project.
 * @throws DomainError VALIDATION_ERROR naming the field
 */
const checkReferences = async (
  work: Work,
  projectId: string,
  { key, definition }: { key: string; definition: Definition },
): Promise<void> => {
  for (const name of namesOf(definition)) await checkActiveKey(work, projectId, name);
  const bundles = (definition.prizes ?? []).map(({ rewards: bundle }, i) => {
    return { bundle, field: `prizes.${i}.rewards` };
  });
  await checkBundles(work, projectId, { kind: "grant", key, bundles });
};

/** Maximum number of active leaderboards of a project: each costs the evaluation of every event. */
export const LEADERBOARDS_MAX = 100;

/** Maximum number of leaderboards of a project including archived ones. */
export const LEADERBOARDS_WITH_ARCHIVED_MAX = 1_000;

const SOURCE_PAGE = 1_000;

/**
 * Creates a leaderboard, active at once. A board of total XP starts with the XP of every player, an EVENT
 * board empty or, with `backfill`, with earlier events, others empty. No batch evaluates meanwhile (see
 * changeConfig), so no change is missed and no event counted twice. Without a time zone it takes the
 * project's.
 * @throws DomainError CONFLICT: KEY_TAKEN, LEADERBOARD_LIMIT, BACKFILL_TOO_LARGE; VALIDATION_ERROR for
 * unknown names
 */
export const createLeaderboard = async (
  work: Work,
  projectId: string,
  { key, name, backfill, period, ...given }: NewLeaderboard,
): Promise<Leaderboard> => {
  const definition = { ...given, period: inCalendar(period, await calendarOfProject(work, projectId)) };
  await changeConfig(work, projectId);
  await checkRoom(work, projectId, key);
  await checkReferences(work, projectId, { key, definition });
  checkSize("leaderboard", definition);
  const leaderboard = await changeRunning(work, sizeOf(projectId), async () =>
    work.em.create(Leaderboard, {
      id: newId(),
      projectId,
      key,
      name,
      status: "ACTIVE",
      definition,
      version: 1,
      periodId: newId(),
      createdAt: work.now,
      updatedAt: work.now,
    }),
  );
  const board = boardOf(leaderboard);
  if (isFilled(definition)) await fillFromXp(work, projectId, board);
  if (backfill) await fillFromEvents(work, projectId, board);
  await openBoard(work, leaderboard);
  await auditDefinition(work, "leaderboard.created", leaderboard);
  return leaderboard;
};

const calendarOfProject = async ({ em }: Work, projectId: string) => {
  const project = await em.findOneOrFail(Project, { id: projectId });
  const { weekStartsOn, dayStartsAtMinutes } = settingsFrom(project.settings);
  return { timezone: project.timezone, weekStartsOn, dayStartsAtMinutes };
};

const sizeOf = (projectId: string) => ({ projectId, reason: "LEADERBOARD_LIMIT" });

const checkRoom = async ({ em }: Work, projectId: string, key: string): Promise<void> => {
  if (await em.findOne(Leaderboard, { projectId, key })) {
    throw conflict("KEY_TAKEN", `the key ${key} is taken; archived leaderboards keep theirs`);
  }
  await refuseFull(em, projectId);
};

/** @param restored number of archived ones that are no longer to be */
const refuseFull = async (em: Work["em"], projectId: string, restored = 0): Promise<void> => {
  const active = await em.count(Leaderboard, { projectId, status: { $ne: "ARCHIVED" } });
  const all = (await em.count(Leaderboard, { projectId })) - restored;
  if (active < LEADERBOARDS_MAX && all < LEADERBOARDS_WITH_ARCHIVED_MAX) return;
  const limit = `${LEADERBOARDS_MAX} leaderboards, and ${LEADERBOARDS_WITH_ARCHIVED_MAX} with archived ones`;
  throw conflict("LEADERBOARD_LIMIT", `a project may have ${limit}`);
};

/** Resolves `{leaderboardId}` of a path: the UUID or the key. */
export const getLeaderboard = async ({ em }: Work, projectId: string, ref: string): Promise<Leaderboard> => {
  const byId = isId(ref) ? await em.findOne(Leaderboard, { projectId, id: ref }) : null;
  const found = byId ?? (await em.findOne(Leaderboard, { projectId, key: ref }));
  if (!found) throw notFound("leaderboard");
  return found;
};

/** Orders of the list. */
export const LEADERBOARD_ORDERS = {
  by: { createdAt: "createdAt", updatedAt: "updatedAt", key: "key", name: "name" },
  usual: "desc",
} as const;

type ListLeaderboards = PageQuery &
  Ordered<SortOf<typeof LEADERBOARD_ORDERS>> & {
    status?: BoardStatus | undefined;
    /** Part of the name or key, in any case. */
    search?: string | undefined;
  };

/** Lists leaderboards, newest first; archived ones only on request. */
export const listLeaderboards = async (
  { em }: Work,
  projectId: string,
  query: ListLeaderboards,
): Promise<{ leaderboards: Leaderboard[]; total: number }> => {
  const $ilike = query.search === undefined ? "%" : containing(query.search);
  const [leaderboards, total] = await em.findAndCount(
    Leaderboard,
    {
      projectId,
      status: query.status ?? { $ne: "ARCHIVED" },
      $or: [{ name: { $ilike } }, { key: { $ilike } }],
    },
    { orderBy: entityOrder(LEADERBOARD_ORDERS, query), limit: query.limit, offset: offsetOf(query) },
  );
  return { leaderboards, total };
};

/** Reads a leaderboard for change: no batch evaluates with it until commit. */
const lockLeaderboard = async (work: Work, projectId: string, ref: string): Promise<Leaderboard> => {
  await changeConfig(work, projectId);
  const leaderboard = await getLeaderboard(work, projectId, ref);
  if (leaderboard.status === "ARCHIVED")
    throw conflict("LEADERBOARD_ARCHIVED", "the leaderboard is archived");
  return leaderboard;
};

type Step = "updated" | "paused" | "resumed" | "archived" | "restored";

const touch = async (work: Work, leaderboard: Leaderboard, step: Step): Promise<Leaderboard> => {
  leaderboard.version++;
  leaderboard.updatedAt = work.now;
  work.emit(leaderboard.projectId, "leaderboard.changed", { leaderboardId: leaderboard.id });
  await auditDefinition(work, `leaderboard.${step}`, leaderboard);
  return leaderboard;
};

/**
 * Changes a leaderboard, effective from the next batch of events. It may go on naming what has been archived
 * since; one that an import restores (`isRestored`) may not.
 * @throws DomainError CONFLICT: VERSION_CONFLICT, TIES_FIXED, LEADERBOARD_ARCHIVED, LEADERBOARD_LIMIT;
 * VALIDATION_ERROR
 */
export const patchLeaderboard = async (
  work: Work,
  projectId: string,
  ref: string,
  { name, version, isRestored = false, ...patch }: LeaderboardPatch & { isRestored?: boolean },
): Promise<Leaderboard> => {
  const leaderboard = await lockLeaderboard(work, projectId, ref);
  if (version !== undefined && version !== leaderboard.version) {
    throw conflict("VERSION_CONFLICT", `the leaderboard is at version ${leaderboard.version}`);
  }
  checkTies(leaderboard.definition.ties, patch.ties);
  const definition = patched(leaderboard.definition, patch);
  const problem = definitionProblem(definition);
  if (problem) throw invalid(problem.path.join("."), problem.message);
  // What it named before may have been archived since: that refuses no other change.
  if (isRestored || !isDeepStrictEqual(namedBy(leaderboard.definition), namedBy(definition)))
    await checkReferences(work, projectId, { key: leaderboard.key, definition });
  checkSize("leaderboard", definition);
  await changeRunning(work, sizeOf(projectId), async () => {
    leaderboard.name = name ?? leaderboard.name;
    leaderboard.definition = definition;
  });
  return touch(work, leaderboard, "updated");
};

/** Applies a patch to a definition: null removes a field. */
const patched = (before: Definition, patch: Omit<LeaderboardPatch, "name" | "version">): Definition => {
  const { period, ...fields } = patch;
  const given = Object.entries({ ...before, ...definedOf(fields) }).filter(([, value]) => value !== null);
  const definition = Object.fromEntries(given) as Definition;
  if (!period) return definition;
  if (before.period.kind === "ALL_TIME")
    throw invalid("period", "this leaderboard has one period for all time");
  return { ...definition, period: { ...before.period, ...definedOf(period) } };
};

/**
 * EARLIEST, SHARED and DENSE order entries alike and differ in the displayed rank; LATEST orders them the
 * other way.
 */
const checkTies = (from: Ties, to: Ties | undefined): void => {
  if (to === undefined || (from === "LATEST") === (to === "LATEST")) return;
  throw conflict("TIES_FIXED", `ties cannot change from ${from} to ${to}; create another leaderboard`);
};

/** Stops accepting scores. Entries stay readable. */
export const pauseLeaderboard = async (work: Work, projectId: string, ref: string): Promise<Leaderboard> => {
  const leaderboard = await lockLeaderboard(work, projectId, ref);
  if (leaderboard.status === "PAUSED") return leaderboard;
  leaderboard.status = "PAUSED";
  return touch(work, leaderboard, "paused");
};

type Resumed = {
  leaderboard: Leaderboard;
  /** A period that has no entries any more: its rank index can be dropped. */
  closedPeriodId?: string;
};

/**
 * Accepts scores again. Events and scores of the pause are not counted afterwards; an XP board catches up, in
 * a new period so that the rank index is read anew and not patched with every player at once.
 */
export const resumeLeaderboard = async (work: Work, projectId: string, ref: string): Promise<Resumed> => {
  const leaderboard = await lockLeaderboard(work, projectId, ref);
  if (leaderboard.status === "ACTIVE") return { leaderboard };
  leaderboard.status = "ACTIVE";
  await touch(work, leaderboard, "resumed");
  if (!isFilled(leaderboard.definition)) {
    await openBoard(work, leaderboard);
    return { leaderboard };
  }
  const closedPeriodId = leaderboard.periodId;
  await deleteEntries(work, leaderboard);
  leaderboard.periodId = newId();
  await openBoard(work, leaderboard);
  await fillFromXp(work, projectId, boardOf(leaderboard));
  return { leaderboard, closedPeriodId };
};

/**
 * Archives a leaderboard: it accepts no scores, is not listed, and keeps its key and its entries. Only an
 * import of a configuration restores it.
 */
export const archiveLeaderboard = async (
  work: Work,
  projectId: string,
  ref: string,
): Promise<Leaderboard> => {
  const leaderboard = await lockLeaderboard(work, projectId, ref);
  leaderboard.status = "ARCHIVED";
  return touch(work, leaderboard, "archived");
};

/** Restores an archived leaderboard as PAUSED. @throws DomainError CONFLICT LEADERBOARD_LIMIT */
export const restoreLeaderboard = async (work: Work, leaderboard: Leaderboard): Promise<void> => {
  await refuseFull(work.em, leaderboard.projectId, 1);
  leaderboard.status = "PAUSED";
  await touch(work, leaderboard, "restored");
};

/** Whether a board can be filled with what players have: total XP. */
export const isFilled = ({ metric, period }: Pick<Definition, "metric" | "period">): boolean =>
  metric.source === "XP" && period.kind === "ALL_TIME";

type EntryRow = {
  player_id: string;
  rank_score: number;
  rank_tie: number;
  version: number;
  hidden: boolean | null;
};

const changeOf = ({ player_id, rank_score, rank_tie, version, hidden }: EntryRow): EntryChange => [
  player_id,
  rank_score,
  rank_tie,
  version,
  hidden ?? false,
];

/** Reads a period's entries page by page, each page in a transaction of its own. */
export const entrySource = (transact: Transact): EntrySource =>
  async function* (projectId, periodId) {
    for (let after: string | undefined = NIL_ID; after !== undefined;) {
      const cursor: string = after;
      const rows: EntryRow[] = await transact(async ({ db }) => {
        const result = await sql<EntryRow>`
          select e.player_id, e.rank_score, e.rank_tie, e.version,
            p.deleted_at is not null or p.status in ('BANNED', 'MERGED', 'ERASED') as hidden
          from leaderboard_entries e
          left join players p on p.project_id = e.project_id and p.id = e.player_id
          where e.project_id = ${projectId} and e.period_id = ${periodId} and e.player_id > ${cursor}::uuid
          order by e.player_id limit ${SOURCE_PAGE}`.execute(db);
        return result.rows;
      });
      after = rows.length < SOURCE_PAGE ? undefined : rows.at(-1)!.player_id;
      yield rows.map(changeOf);
    }
  };
