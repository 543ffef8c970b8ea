import { defineEntity, p } from "@mikro-orm/core";
import { sql } from "kysely";
import { compileAdventure, indexAdventures } from "../evaluation/adventures/compile.ts";
import { indexFollowers } from "../evaluation/badges/award.ts";
import { compileBadge } from "../evaluation/badges/badge.ts";
import type { Board, BoardStatus } from "../evaluation/boards/board.ts";
import { DEFAULT_RANK_CHANGE, type Definition } from "../evaluation/boards/definition.ts";
import { boardPieces } from "../evaluation/boards/holdings.ts";
import { toRankScore } from "../evaluation/boards/lists.ts";
import { compileCampaign } from "../evaluation/boosts/campaign-boost.ts";
import type { Currency } from "../evaluation/currencies/currency.ts";
import type { Spender } from "../evaluation/event-cost.ts";
import type { RuleDocument } from "../evaluation/language/document.ts";
import type { Economy, ProjectPlan } from "../evaluation/project-plan.ts";
import {
  DOCUMENT_MAX_BYTES,
  type LeftOut,
  STORED_MAX_BYTES,
  TOO_LARGE_TO_RUN,
  whyNot,
} from "../evaluation/running/outcome.ts";
import type { Defined, Live, Stored } from "../evaluation/live.ts";
import { type Metric, metricPieces } from "../evaluation/metrics/compile.ts";
import { type ProjectSettings, settingsFrom } from "../evaluation/project-settings.ts";
import { compileQuest, indexQuests } from "../evaluation/quests/compile.ts";
import type { Reward } from "../evaluation/rewards/bundle.ts";
import { publishedPieces, type PublishedRule, type RuleSet } from "../evaluation/running/compile.ts";
import { compileSegment, indexSegments } from "../evaluation/segments/membership.ts";
import { indexStreaks } from "../evaluation/streaks/advance.ts";
import { compileStreak } from "../evaluation/streaks/compile.ts";
import type { Level, LevelCurve } from "../evaluation/xp/levels.ts";
import { DomainError } from "../kernel/errors.ts";
import { BUSY } from "../kernel/outages.ts";
import { bytesOf } from "../kernel/hostile-json.ts";
import { inSlices, nextSlice, type Steps } from "../kernel/slices.ts";
import { kept } from "../kernel/statements.ts";
import type { Work } from "../kernel/work.ts";
import { getCurve } from "./level-curves.ts";
import type { Streak } from "../evaluation/streaks/streak.ts";

/** Documents read by one statement: a page of large ones is parsed within a slice or two. */
const PAGE_RULES = 25;

type VersionRef = { id: string; version: number };

/**
 * Reads published versions of rules in pages, yielding to the event loop in between.
 * @param take called once for each version found
 */
export const loadVersions = async <V extends VersionRef>(
  { db }: Work,
  versions: readonly V[],
  take: (version: V, definition: RuleDocument) => void,
): Promise<void> => {
  for (let from = 0; from < versions.length; from += PAGE_RULES) {
    if (from > 0) await nextSlice();
    const page = new Map(versions.slice(from, from + PAGE_RULES).map((one) => [one.id, one]));
    const ids = `{${[...page.keys()].join(",")}}`;
    const numbers = `{${[...page.values()].map(({ version }) => version).join(",")}}`;
    const { rows } = await sql<{ id: string; definition: RuleDocument }>`
      select v.rule_id as id, v.definition
      from unnest(${ids}::uuid[], ${numbers}::int[]) as u(id, version)
      join rule_versions v on v.rule_id = u.id and v.version = u.version`.execute(db);
    for (const { id, definition } of rows) take(page.get(id)!, definition);
  }
};

const RUNNING_RULE = sql`r.id, r.key, r.created_at as "createdAt", r.published_version as version,
  r.status = 'SHADOW' as "isShadow"`;
const IS_RUNNING = sql`r.status in ('ACTIVE', 'SHADOW')`;

/** Loads the published versions of the running rules of a project, SHADOW included. */
export const loadPublished = async (work: Work, projectId: string): Promise<PublishedRule[]> => {
  const { rows } = await sql<Omit<PublishedRule, "definition">>`
    select ${RUNNING_RULE} from rules r where r.project_id = ${projectId} and ${IS_RUNNING}`.execute(work.db);
  const found: PublishedRule[] = [];
  await loadVersions(work, rows, (rule, definition) => void found.push({ ...rule, definition }));
  return found;
};

/** Active definitions of a project by kind. */
type DefinitionsByKind = ReadonlyMap<string, readonly Stored[]>;

type Given = { definitions: DefinitionsByKind; leftOut: LeftOut[] };

/** Compiles the definitions of a kind; those that fail are left out and reported, and affect no others. */
function* compiled<D, C>(
  { definitions, leftOut }: Given,
  kind: string,
  compile: (stored: Omit<Stored, "definition"> & { definition: D }) => C,
): Steps<Map<string, C>> {
  const found = new Map<string, C>();
  for (const stored of definitions.get(kind) ?? []) {
    const { id, version, definition } = stored;
    const { key } = definition;
    yield;
    if (bytesOf(definition) > DOCUMENT_MAX_BYTES) {
      leftOut.push({ kind, id, key, version, why: TOO_LARGE_TO_RUN });
      continue;
    }
    try {
      found.set(key, compile({ ...stored, definition: definition as unknown as D }));
    } catch (error) {
      leftOut.push({ kind, id, key, version, why: whyNot(error) });
    }
  }
  return found;
}

/** Compiles the economy definitions of a project, with the metrics that they and its rules read. */
export function* economyPieces(
  definitions: DefinitionsByKind,
  rules: RuleSet,
  settings: ProjectSettings,
): Steps<Economy> {
  const leftOut: LeftOut[] = [...rules.leftOut];
  const given = { definitions, leftOut };
  const badges = yield* compiled(given, "badge", compileBadge);
  const streaks = yield* compiled(given, "streak", (live: Live<Streak>) =>
    compileStreak({ ...live, settings }),
  );
  const segments = yield* compiled(given, "segment", compileSegment);
  const spenders = new Map<Metric, Spender>();
  for (const { id, key, metrics } of rules.all)
    for (const metric of metrics) spenders.set(metric, { kind: "rule", id, key });
  for (const { id, definition, metrics } of badges.values())
    for (const metric of metrics) spenders.set(metric, { kind: "badge", id, key: definition.key });
  for (const { id, definition, metrics } of segments.values())
    for (const metric of metrics) spenders.set(metric, { kind: "segment", id, key: definition.key });
  const byKey = yield* compiled(given, "quest", compileQuest);
  for (const { id, key, metrics } of byKey.values())
    for (const metric of metrics) spenders.set(metric, { kind: "quest", id, key });
  const adventures = indexAdventures(yield* compiled(given, "adventure", compileAdventure));
  const quests = indexQuests(byKey, adventures);
  const index = yield* metricPieces([...spenders.keys()], (metric) => spenders.get(metric));
  const levels = yield* compiled(given, "level", ({ definition }: Live<Level>) => definition);
  const rewards = yield* compiled(given, "reward", (live: Live<Reward>) => live);
  return {
    currencies: yield* compiled(given, "currency", ({ definition }: Live<Currency>) => definition),
    badges,
    badgesByMetric: indexFollowers(badges),
    streaks,
    streaksByEventType: indexStreaks(streaks),
    segments,
    quests,
    adventures,
    segmentIndex: indexSegments([...segments.values()]),
    rewards,
    levels: new Map([...levels].map(([key, level]) => [Number(key), level])),
    boosts: [...(yield* compiled(given, "boost", compileCampaign)).values()],
    leftOut,
    metrics: index,
    hasListeners: (eventType) =>
      rules.listeners(eventType).length > 0 ||
      index.forEvent(eventType).length > 0 ||
      quests.forEvent(eventType).length > 0 ||
      adventures.forEvent(eventType).length > 0 ||
      [...streaks.values()].some((streak) => streak.listensTo(eventType)),
  };
}

const LeaderboardSchema = defineEntity({
  name: "Leaderboard",
  tableName: "leaderboards",
  properties: {
    id: p.uuid().primary(),
    projectId: p.uuid(),
    key: p.text(),
    name: p.text(),
    status: p.text().$type<BoardStatus>(),
    definition: p.json<Definition>(),
    version: p.integer(),
    /** The one period of an ALL_TIME board; entries and rank index belong to it. */
    periodId: p.uuid(),
    /** Number of resets; part of the keys of its windows. */
    resets: p.integer().default(0),
    /** Time of the last reset: earlier events belong to closed windows. */
    resetAt: p.datetime(3).nullable(),
    /** When its next window begins, to be opened by a sweep; null for none. */
    opensAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
/** A ranking of a project's players. */
export class Leaderboard extends LeaderboardSchema.class {}
LeaderboardSchema.setClass(Leaderboard);

/** Converts a leaderboard to the form that scoring reads. */
export const boardOf = (leaderboard: Leaderboard): Board => {
  const { id, key, periodId, resets, resetAt, status, definition } = leaderboard;
  const { ties, sort, operator, scoreDecimals, metric, period, prizesForLate } = definition;
  const { audience, bounds, entryCost, minScoreToEnter, breakdownAttribute, breakdownProperty } = definition;
  const minRankScore =
    minScoreToEnter === undefined ? undefined : toRankScore({ scoreDecimals, sort }, minScoreToEnter);
  const resetAtMs = resetAt?.getTime() ?? null;
  const of = { id, key, periodId, resets, resetAtMs, status, period };
  const scoring = { ties, sort, operator, scoreDecimals, metric, prizesForLate };
  const entering = { breakdownAttribute, breakdownProperty, audience, bounds, entryCost, minRankScore };
  return { ...of, ...scoring, ...entering, maxSubmissions: definition.maxSubmissionsPerPeriod };
};

/** Defaults of optional fields, as the API shows them. */
const OPTIONAL = {
  description: null,
  audience: null,
  breakdownAttribute: null,
  breakdownProperty: null,
  minScoreToEnter: null,
  displayLimit: null,
  entryCost: null,
  maxSubmissionsPerPeriod: null,
  bounds: null,
  rankChange: DEFAULT_RANK_CHANGE,
  prizes: [],
};

type Optional = typeof OPTIONAL;
type Whole = Omit<Definition, keyof Optional> & {
  [Field in keyof Optional]: NonNullable<Definition[Field]> | Optional[Field];
};

/** Fills in the defaults of a definition. */
const wholeOf = (definition: Definition): Whole => ({ ...OPTIONAL, ...definition }) as Whole;

/** Converts a leaderboard to its API representation. */
export const showLeaderboard = (leaderboard: Leaderboard) => {
  const { definition } = leaderboard;
  return {
    id: leaderboard.id,
    key: leaderboard.key,
    name: leaderboard.name,
    status: leaderboard.status,
    ...wholeOf(definition),
    resets: leaderboard.resets,
    version: leaderboard.version,
    createdAt: leaderboard.createdAt.toISOString(),
    updatedAt: leaderboard.updatedAt.toISOString(),
  };
};

/** Loads the boards that evaluation may touch: all except archived ones. */
export const loadBoards = async ({ em }: Work, projectId: string): Promise<Board[]> => {
  const leaderboards = await em.find(
    Leaderboard,
    { projectId, status: { $ne: "ARCHIVED" } },
    { orderBy: { id: "asc" }, disableIdentityMap: true },
  );
  return leaderboards.map(boardOf);
};

type Row = Omit<Stored, "projectId" | "status"> & { kind: string };

/** Earlier versions of a definition that are kept for players who use them. */
const EARLIER_MAX = 5;

type ByKind = Map<string, Stored[]>;

const byKindOf = (projectId: string, rows: readonly Row[]): ByKind => {
  const storedOf = ({ kind: _kind, ...row }: Row): Stored => ({ ...row, projectId, status: "ACTIVE" });
  const groups = Map.groupBy(rows, ({ kind }) => kind);
  return new Map([...groups].map(([kind, own]) => [kind, own.map(storedOf)]));
};

/** Loads the active definitions of a project by kind, in one statement. */
export const loadDefinitions = async ({ db }: Work, projectId: string): Promise<ByKind> => {
  const found = await sql<Row>`
    select id, kind, definition, version from definitions
    where project_id = ${projectId} and status = 'ACTIVE' order by kind, key`.execute(db);
  return byKindOf(projectId, found.rows);
};

/** As `loadDefinitions`, without those too large to be evaluated. */
const loadRunning = async (
  { db }: Work,
  projectId: string,
): Promise<{ definitions: ByKind; leftOut: LeftOut[] }> => {
  const found = await sql<Row & { definition: Defined | null; key: string }>`
    select id, kind, key, version,
      case when pg_column_size(definition) <= ${STORED_MAX_BYTES} then definition end as definition, phase,
      floor(extract(epoch from ended_at) * 1000)::float8 as "endedMs", pauses,
      case when phase is not null and version > 1 then (
        select json_agg(json_build_object('version', v.version, 'definition', v.definition)
          order by v.version)
        from definition_versions v
        where v.project_id = definitions.project_id and v.definition_id = definitions.id
          and v.version < definitions.version
          and v.version >= definitions.version - ${sql.lit(EARLIER_MAX)}) end as earlier
    from definitions
    where project_id = ${projectId} and status = 'ACTIVE' order by kind, key`.execute(db);
  const leftOut = found.rows
    .filter(({ definition }) => definition === null)
    .map(({ kind, id, key, version }) => ({ kind, id, key, version, why: TOO_LARGE_TO_RUN }));
  const rows = found.rows.filter(({ definition }) => definition !== null);
  const plain = rows.map(({ key: _key, ...row }) => row);
  return { definitions: byKindOf(projectId, plain), leftOut };
};

/** As `loadDefinitions`, only those with the given names. */
export const loadDefinitionsNamed = async (
  { db }: Work,
  projectId: string,
  names: readonly { kind: string; key: string }[],
): Promise<ByKind> => {
  const wanted = JSON.stringify(names.map(({ kind, key }) => ({ kind, key })));
  const found = await sql<Row>`
    select d.id, d.kind, d.definition, d.version
    from (select distinct kind, key from json_to_recordset(${wanted}::json) as r(kind text, key text)) n
    join definitions d on d.project_id = ${projectId} and d.kind = n.kind and d.key = n.key
    where d.status = 'ACTIVE'`.execute(db);
  return byKindOf(projectId, found.rows);
};

/** Loads the running rules of a project, SHADOW included, without reading those too large to be evaluated. */
const loadRunningRules = async (
  work: Work,
  projectId: string,
): Promise<{ rules: PublishedRule[]; leftOut: LeftOut[] }> => {
  const { rows } = await sql<PublishedRule | (Omit<PublishedRule, "definition"> & { definition: null })>`
    select ${RUNNING_RULE},
      case when pg_column_size(v.definition) <= ${STORED_MAX_BYTES} then v.definition end as definition
    from rules r join rule_versions v on v.rule_id = r.id and v.version = r.published_version
    where r.project_id = ${projectId} and ${IS_RUNNING}`.execute(work.db);
  const tooLarge = rows.filter(({ definition }) => definition === null);
  const leftOut = tooLarge.map(({ id, key, version }) => ({
    kind: "rule",
    id,
    key,
    version,
    why: TOO_LARGE_TO_RUN,
  }));
  return { rules: rows.filter((row) => row.definition !== null), leftOut };
};

/** A config version of a project, and its tenant. */
export type Version = { projectId: string; tenantId: string; configVersion: number };

export type ProjectRow = Version &
  Pick<ProjectPlan, "timezone" | "isSandbox" | "clockAheadMs"> & { settings: Partial<ProjectSettings> };

const COLUMNS = sql`id as "projectId", tenant_id as "tenantId", config_version as "configVersion", timezone,
  settings, sandbox_of is not null as "isSandbox", clock_ahead_ms as "clockAheadMs"`;

export const readRows = async ({ db }: Work, projectIds: readonly string[]): Promise<ProjectRow[]> =>
  (
    await kept(
      db,
      sql<ProjectRow>`
      select ${COLUMNS} from projects
      where id = any(${`{${projectIds.join(",")}}`}::uuid[])`,
    )
  ).rows;

export const readProject = async ({ db }: Work, projectId: string): Promise<ProjectRow | undefined> =>
  (await kept(db, sql<ProjectRow>`select ${COLUMNS} from projects where id = ${projectId}`)).rows[0];

/** The parts that a plan is compiled from, as read. */
export type PlanParts = {
  row: ProjectRow;
  boards: readonly Board[];
  rules: readonly PublishedRule[] | RuleSet;
  definitions: DefinitionsByKind;
  curve: LevelCurve;
  /** Definitions that were not read because of their size. */
  unread: readonly LeftOut[];
};

/** How often definitions are read again when they change during the read. */
const READS_MAX = 5;

/** Seconds after which a client that met such changes retries. */
const RETRY_SECONDS = 1;

const changing = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "The project's definitions are being changed right now: try again", {
    reason: BUSY,
    retryAfterSeconds: RETRY_SECONDS,
  });

/**
 * Reads a project's definitions without locking them, all of one version.
 * @throws DomainError SERVICE_UNAVAILABLE BUSY when they keep changing
 */
export const readParts = async (work: Work, projectId: string): Promise<PlanParts | undefined> => {
  let row = await readProject(work, projectId);
  for (let reads = 1; row; reads++) {
    const parts = await readPartsOf(work, row);
    const after = await readProject(work, projectId);
    if (after?.configVersion === row.configVersion) return parts;
    if (reads === READS_MAX) throw changing();
    row = after;
  }
  return undefined;
};

export const readPartsOf = async (work: Work, row: ProjectRow, given?: RuleSet): Promise<PlanParts> => {
  const { projectId } = row;
  const boards = (await loadBoards(work, projectId)).filter((board) => board.status === "ACTIVE");
  const { rules, leftOut } = given ? { rules: given, leftOut: [] } : await loadRunningRules(work, projectId);
  const found = await loadRunning(work, projectId);
  const unread = [...leftOut, ...found.leftOut];
  return {
    row,
    boards,
    rules,
    definitions: found.definitions,
    curve: await getCurve(work, projectId),
    unread,
  };
};

/** Computes the bytes of documents as JSON, in slices. */
function* sizePieces(documents: readonly object[]): Steps<number> {
  let sum = 0;
  for (const document of documents) {
    sum += bytesOf(document);
    yield;
  }
  return sum;
}

const isCompiled = (rules: PlanParts["rules"]): rules is RuleSet => "candidates" in rules;

export const compileParts = (parts: PlanParts): Promise<ProjectPlan> => inSlices(planPieces(parts));

function* planPieces(parts: PlanParts): Steps<ProjectPlan> {
  const { row, boards, rules: given, definitions, curve, unread } = parts;
  const rules = isCompiled(given) ? given : yield* publishedPieces(given, row.tenantId);
  const settings = settingsFrom(row.settings);
  const economy = yield* economyPieces(definitions, rules, settings);
  const stored = [...definitions.values()].flat();
  return {
    ...economy,
    ...row,
    leftOut: [...unread, ...economy.leftOut],
    bytes: yield* sizePieces([...[...rules.all, ...stored].map(({ definition }) => definition), ...boards]),
    settings,
    curve,
    boards,
    boardsByKey: new Map(boards.map((board) => [board.key, board])),
    boardIndex: yield* boardPieces(boards),
    rules,
  };
}
