import { type RawBuilder, sql } from "kysely";
import type { Cause } from "../kernel/events/events.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { RuleDocument } from "../evaluation/language/document.ts";
import { metricId } from "../evaluation/metrics/metric-id.ts";
import { needsOf } from "../evaluation/language/needs.ts";
import { OUTBOX_LINES } from "../kernel/outbox-lines.ts";
import { mapInSlices } from "../kernel/slices.ts";
import { lineCause } from "../progression/ledger-line.ts";
import type { Work } from "../kernel/work.ts";
import { type OwnedAward, readAwards } from "./read-awards.ts";
import type { CausedEvent, CausedFiring, CausedGrant, CausedLine } from "./record.ts";
import type { CounterStarts } from "./reverse-counters.ts";
import { controlsOf, type FiredRules, firingKey } from "./reverse-firings.ts";
import type { BoardStarts } from "./reverse-scores.ts";

/** Rows of several events and players, with their owners. */
type Owned<T> = T & { eventId: string; playerId: string };

export type Caused = {
  ledger: Owned<CausedLine>[];
  grants: Owned<CausedGrant>[];
  firings: Owned<CausedFiring>[];
  emitted: Owned<CausedEvent>[];
  /**
   * Awards of the badges that the events have awarded: their own; also, with `eventId` null or another, the
   * last revocation of each badge, and the highest tier that something else has awarded since.
   */
  awards: OwnedAward[];
};

const idsOf = (ids: readonly string[]): string => `{${ids.join(",")}}`;

/**
 * Maximum number of rows of a kind that the reverted events may have caused together: those of two floods of
 * one event.
 */
export const CAUSED_ROWS_MAX = 20_000;
/** Maximum bytes of emitted events, as PostgreSQL stores them. */
export const CAUSED_BYTES_MAX = 32 * 1024 * 1024;

/** Whether events have caused no more than one transaction can revert. Counts no further than that. */
export const isBounded = async (
  { db }: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<boolean> => {
  const rowsOf = (table: string, bytes: string) => sql`(
    select count(*) <= ${CAUSED_ROWS_MAX} and coalesce(sum(bytes), 0) <= ${CAUSED_BYTES_MAX} from (
      select ${sql.raw(bytes)} as bytes from ${sql.table(table)} t
      where project_id = ${projectId} and event_id = any(${idsOf(eventIds)}::uuid[])
      limit ${CAUSED_ROWS_MAX + 1}) t)`;
  const counts = [
    rowsOf("ledger_entries", "0"),
    rowsOf("reward_grants", "0"),
    rowsOf("rule_executions", "0"),
    rowsOf("badge_awards", "0"),
    rowsOf("outbox", "pg_column_size(data)"),
  ];
  const found = await sql<{ ok: boolean }>`select ${sql.join(counts, sql` and `)} as ok`.execute(db);
  return found.rows[0]!.ok;
};

/** Reads everything that events have caused, as far as it was stored and has not been reverted yet. */
export const readCaused = async (
  work: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<Caused> => {
  const { db } = work;
  const ids = sql`any(${idsOf(eventIds)}::uuid[])`;
  const grants = await sql<Owned<CausedGrant>>`
    select id, reward_key as "rewardKey", quantity, status, idempotency_key as key, code,
      event_id as "eventId", player_id as "playerId"
    from reward_grants where project_id = ${projectId} and event_id = ${ids}
      and status not in ('REVOKED', 'EXPIRED')`.execute(db);
  const firings = await sql<Owned<CausedFiring>>`
    select rule_id as "ruleId", rule_version as "ruleVersion", event_id as "eventId", player_id as "playerId",
      effects->'scores' as scores
    from rule_executions
    where project_id = ${projectId} and event_id = ${ids} and mode = 'LIVE' and reverted_at is null`.execute(
    db,
  );
  const emitted = await sql<Owned<CausedEvent>>`
    select type, data, event_id as "eventId", player_id as "playerId" from ${OUTBOX_LINES} o
    where project_id = ${projectId} and event_id = ${ids} and player_id is not null
    order by player_seq, id`.execute(db);
  return {
    ledger: await readLines(work, projectId, { eventIds, grants: grants.rows }),
    grants: grants.rows,
    firings: firings.rows,
    emitted: emitted.rows,
    awards: await readAwards(work, projectId, eventIds),
  };
};

type LineRow = Omit<Owned<CausedLine>, "seq" | "amount" | "cause"> & {
  seq: string | number;
  amount: string | number;
  cause: Cause;
};

/** Reads the ledger entries of events, and those of their rewards that were claimed later. */
const readLines = async (
  { db }: Work,
  projectId: string,
  { eventIds, grants }: { eventIds: readonly string[]; grants: readonly Owned<CausedGrant>[] },
): Promise<Owned<CausedLine>[]> => {
  const claimed = grants
    .filter(({ status }) => status === "CLAIMED" || status === "FULFILLED")
    .map(({ playerId, key, eventId }) => ({ i: playerId, k: `${key}:`, e: eventId }));
  const columns = sql.raw(`l.id, l.seq, l.asset, l.currency_key as "currencyKey", l.amount,
    l.idempotency_key as key, l.player_id as "playerId"`);
  const isOpen = sql`l.reverses is null and not exists (select 1 from ledger_entries r
    where r.project_id = l.project_id and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)`;
  const found = await sql<LineRow>`
    select ${columns}, ${lineCause("l")} as cause, l.event_id as "eventId" from ledger_entries l
    where l.project_id = ${projectId} and l.event_id = any(${idsOf(eventIds)}::uuid[]) and ${isOpen}
    union all
    select ${columns}, ${lineCause("l")}, x.e
    from json_to_recordset(${JSON.stringify(claimed)}::json) as x(i uuid, k text, e uuid)
    join ledger_entries l on l.project_id = ${projectId} and l.player_id = x.i
      and starts_with(l.idempotency_key, x.k) and l.event_id is null
    where ${isOpen}`.execute(db);
  return found.rows.map((row) => ({ ...row, seq: Number(row.seq), amount: Number(row.amount) }));
};

/** Rules that fired, and what remains of a firing of each, in words. */
export type ReadRules = { rules: FiredRules; leftBy(firing: CausedFiring): readonly string[] };

/** Reads the rules that fired, in the version of that time, and which of their actions cannot be reverted. */
export const readRules = async (
  { db }: Work,
  projectId: string,
  firings: readonly Pick<CausedFiring, "ruleId" | "ruleVersion">[],
): Promise<ReadRules> => {
  const fired = new Map(firings.map((firing) => [firingKey(firing), firing]));
  const wanted = [...fired.values()].map(({ ruleId, ruleVersion }) => ({ r: ruleId, v: ruleVersion }));
  const found = await sql<{ id: string; key: string; version: number; definition: RuleDocument }>`
    select distinct on (v.rule_id, v.version) r.id, r.key, v.version, v.definition
    from json_to_recordset(${JSON.stringify(wanted)}::json) as x(r uuid, v int)
    join rule_versions v on v.rule_id = x.r and v.version = x.v
    join rules r on r.id = v.rule_id and r.project_id = ${projectId}`.execute(db);
  const read = await mapInSlices(found.rows, ({ id, key, version, definition }) => {
    const name = firingKey({ ruleId: id, ruleVersion: version });
    const [recorded, unrecorded] = [true, false].map((isRecorded) =>
      leftBy(definition, { isRecorded }).map((what) => `${what} by rule ${key}`),
    );
    return { name, controls: controlsOf(id, key, definition), left: { recorded, unrecorded } };
  });
  const leftOf = new Map(read.map(({ name, left }) => [name, left]));
  return {
    rules: new Map(read.map(({ name, controls }) => [name, controls])),
    leftBy: (firing) =>
      leftOf.get(firingKey(firing))?.[firing.scores === null ? "unrecorded" : "recorded"] ?? [],
  };
};

type Action = RuleDocument["actions"][number];

const leftBy = ({ actions }: RuleDocument, { isRecorded }: { isRecorded: boolean }): string[] =>
  actions.flatMap((action) => {
    const isSent = action.target !== undefined || action.delaySeconds !== undefined;
    if (action.type === "submit_score" && isRecorded && !isSent) return [];
    if (action.type === "submit_score") return [`leaderboard ${action.leaderboardKey}: the score submitted`];
    if (action.type === "update_player") return ["attributes, tags and segments set"];
    const progress = progressBy(action);
    if (progress !== undefined) return [`progress of ${progress}`];
    return isUnseen(action) ? [`counters of ${action.eventType}, emitted`] : [];
  });

/** Returns what an action has got further in a way that is not taken back. */
const progressBy = (action: Action): string | undefined => {
  if (action.type === "update_quest" && action.entity === "adventure") return `adventure ${action.key}`;
  const isOfBadge = action.type === "update_badge" && action.operation === "PROGRESS";
  return isOfBadge ? `badge ${action.badgeKey}` : undefined;
};

type EmitEvent = Extract<Action, { type: "emit_event" }>;

/** Whether an action emits an event that only rules get, which is not kept. */
const isUnseen = (action: Action): action is EmitEvent =>
  action.type === "emit_event" &&
  action.channels.includes("rules") &&
  !action.channels.some((channel) => channel === "webhook" || channel === "realtime");

/** Since when a version's counters count: its publication, or ever once a backfill has counted for it. */
const begun = (projectId: string, kind: string, isOf: RawBuilder<unknown>) => sql`
  case when exists (
    select 1 from project_jobs j where j.project_id = ${projectId} and j.kind = ${kind}
      and j.status = 'SUCCEEDED' and j.params->>${isOf})
  then 'epoch' else min(v.published_at) end`;

/**
 * Returns when the counters of a project began: with the first definition that uses them, unless earlier
 * events were counted afterwards.
 */
export const readCounterStarts = async (
  { db }: Work,
  projectId: string,
  { badges, segments, quests, rules }: ProjectPlan,
): Promise<CounterStarts> => {
  const made = await sql<{ id: string; at: Date | string }>`
    select id, created_at as at from definitions
    where project_id = ${projectId} and kind in ('badge', 'segment') and status = 'ACTIVE'
    union all
    select v.definition_id, ${begun(projectId, "QUEST_BACKFILL", sql`'questId' = v.definition_id::text`)}
    from definition_versions v where v.project_id = ${projectId} group by v.definition_id
    union all
    select v.rule_id, ${begun(projectId, "BACKFILL", sql`'ruleId' = v.rule_id::text`)}
    from rule_versions v join rules r on r.id = v.rule_id
    where r.project_id = ${projectId} group by v.rule_id`.execute(db);
  const madeMs = new Map(made.rows.map(({ id, at }) => [id, new Date(at).getTime()]));
  const starts = new Map<string, number>();
  const note = (id: string, metrics: readonly Parameters<typeof metricId>[0][]): void => {
    for (const metric of metrics) {
      const key = metricId(metric);
      starts.set(key, Math.min(starts.get(key) ?? Infinity, madeMs.get(id) ?? -Infinity));
    }
  };
  await mapInSlices([...badges.values(), ...segments.values(), ...quests.byKey.values()], ({ id, metrics }) =>
    note(id, metrics),
  );
  await mapInSlices(rules.all, ({ id, definition }) => note(id, needsOf(definition).metrics));
  return starts;
};

/** Returns when boards were created, by id. */
export const readBoardStarts = async ({ db }: Work, projectId: string): Promise<BoardStarts> => {
  const found = await sql<{ id: string; at: Date | string }>`
    select id, created_at as at from leaderboards where project_id = ${projectId}`.execute(db);
  return new Map(found.rows.map(({ id, at }) => [id, new Date(at).getTime()]));
};

/** Reads the longest archived runs of players' streaks, by player and key of the streak. */
export const readLongestRuns = async (
  { db }: Work,
  projectId: string,
  playerIds: readonly string[],
): Promise<Map<string, Map<string, number>>> => {
  if (playerIds.length === 0) return new Map();
  const found = await sql<{ playerId: string; key: string; length: number }>`
    select player_id as "playerId", streak_key as key, max(length) as length from streak_runs
    where project_id = ${projectId} and player_id = any(${idsOf(playerIds)}::uuid[])
    group by player_id, streak_key`.execute(db);
  const runs = new Map<string, Map<string, number>>(playerIds.map((id) => [id, new Map()]));
  for (const { playerId, key, length } of found.rows) runs.get(playerId)?.set(key, length);
  return runs;
};
