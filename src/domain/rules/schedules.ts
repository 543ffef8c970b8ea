import { type RawBuilder, sql } from "kysely";
import { insertWarehouseChanges } from "../kernel/events/warehouse-changes.ts";
import { idFor, NIL_ID, partitionOf } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";
import { lastRunMs, nextRunMs, SCHEDULE_TYPE } from "../evaluation/language/patterns.ts";
import type { RuleDocument, ScheduleTrigger } from "../evaluation/language/document.ts";
import { type Rule, RuleVersion } from "./rules.ts";

/** Number of players per transaction for whom a rule is scheduled. */
export const SCHEDULE_PAGE = 500;

/** Number of waiting events above which a project's schedules are held back. */
export const BACKLOG_MAX = 5_000;
/** How much older than now the ids of events may be that a warehouse is not told of apart, in ms. */
const LATE_MS = 30_000;

/** Returns a rule's schedules, with their index among its triggers. */
const schedulesOf = ({ triggers }: RuleDocument): [triggerNo: number, trigger: ScheduleTrigger][] =>
  triggers.flatMap((trigger, i) => (trigger.kind === "SCHEDULE" ? [[i, trigger] as const] : [])) as [
    number,
    ScheduleTrigger,
  ][];

const isRunning = ({ status }: Rule): boolean => status === "ACTIVE" || status === "SHADOW";

/**
 * Aligns a rule's schedules with its published version and its status. A run in progress continues with the
 * new version.
 */
export const planSchedules = async (work: Work, rule: Rule): Promise<void> => {
  const version = rule.publishedVersion ?? undefined;
  const published =
    version === undefined || !isRunning(rule)
      ? undefined
      : await work.em.findOne(RuleVersion, { ruleId: rule.id, version });
  await planAllSchedules(work, rule.projectId, [{ id: rule.id, running: published?.definition }]);
};

/** As `planSchedules`, for many rules in two statements. `running`: the version that runs, if any. */
export const planAllSchedules = async (
  { db, now }: Work,
  projectId: string,
  rules: readonly { id: string; running: RuleDocument | undefined }[],
): Promise<void> => {
  const rows = rules.flatMap(({ id, running }) =>
    (running ? schedulesOf(running) : []).flatMap(([t, { cron, timezone }]) => {
      const due = nextRunMs(cron, timezone, now.getTime());
      return due === undefined ? [] : [{ id, t, due: new Date(due).toISOString() }];
    }),
  );
  const kept = JSON.stringify(rows);
  await sql`
    delete from rule_schedules
    where project_id = ${projectId} and rule_id = any(${`{${rules.map(({ id }) => id).join(",")}}`}::uuid[])
      and (rule_id, trigger_no) not in (
        select id, t from json_to_recordset(${kept}::json) as x(id uuid, t int))`.execute(db);
  if (rows.length === 0) return;
  await sql`
    insert into rule_schedules as s (project_id, rule_id, trigger_no, due_at)
    select ${projectId}::uuid, id, t, due
    from json_to_recordset(${kept}::json) as x(id uuid, t int, due timestamptz)
    on conflict (project_id, rule_id, trigger_no) do update set due_at = excluded.due_at
    where s.after_player is null`.execute(db);
};

/** A due schedule, and its progress through the players. */
type Due = {
  projectId: string;
  ruleId: string;
  triggerNo: number;
  dueMs: number;
  afterPlayer: string | null;
  trigger: ScheduleTrigger | undefined;
};

/** Position in a walk over due schedules; undefined at its beginning. */
export type ScheduleCursor = { projectId: string; ruleId: string; triggerNo: number };

/** `isFull`: the project has so many waiting events that this schedule is held back. */
export type ScheduleStep = { cursor: ScheduleCursor; players: number; isFull: boolean };

/**
 * Runs the next due schedule after `cursor` for a page of players: one event for each, whose id is derived
 * from rule, time and player, so that nobody gets two. A missed schedule runs once, for the latest time at
 * which it was due. Works over all projects, or those of `only`.
 * @returns undefined when there is none after `cursor`
 */
export const stepSchedules = async (
  work: Work,
  cursor: ScheduleCursor | undefined,
  only?: { projectId: string },
): Promise<ScheduleStep | undefined> => {
  const due = await takeDue(work, cursor, only);
  if (!due) return undefined;
  const { projectId, ruleId, triggerNo, trigger } = due;
  const step = { cursor: { projectId, ruleId, triggerNo }, players: 0, isFull: false };
  if (!trigger) {
    await setDue(work, due, { dueMs: undefined });
    return step;
  }
  if (await isBacklogged(work, projectId)) return { ...step, isFull: true };
  const nowMs = work.now.getTime();
  const latest = due.afterPlayer === null ? lastRunMs(trigger.cron, trigger.timezone, nowMs) : undefined;
  const dueMs = Math.max(due.dueMs, latest ?? due.dueMs);
  const players = await readPage(work, due, trigger.segmentKey);
  if (players.length > 0) await insertEvents(work, { ...due, dueMs }, players);
  if (players.length === SCHEDULE_PAGE) await setDue(work, due, { dueMs, afterPlayer: players.at(-1)!.id });
  else await setDue(work, due, { dueMs: nextRunMs(trigger.cron, trigger.timezone, nowMs) });
  return { ...step, players: players.length };
};

type DueRow = Omit<Due, "dueMs" | "trigger"> & { dueAt: Date; definition: RuleDocument };

const RUNNING_SCHEDULES = sql`
  from rule_schedules s
  join rules r on r.id = s.rule_id and r.status in ('ACTIVE', 'SHADOW')
  join projects p on p.id = s.project_id and p.deleted_at is null
  join rule_versions v on v.rule_id = r.id and v.version = r.published_version`;

const dueSchedules = (at: Date): RawBuilder<unknown> =>
  sql`${RUNNING_SCHEDULES} where s.due_at <= ${at.toISOString()}::timestamptz`;

/** Selects the times at which the schedules of a project's running rules are due. */
export const scheduleTimesOf = (projectId: string): RawBuilder<unknown> =>
  sql`select s.due_at ${RUNNING_SCHEDULES} where s.project_id = ${projectId}::uuid`;

/** Whether a schedule of a rule that runs is due, held back or not. */
export const areSchedulesDue = (at: Date): RawBuilder<unknown> => sql`exists (select ${dueSchedules(at)})`;

const takeDue = async (
  { db, now }: Work,
  cursor: ScheduleCursor | undefined,
  only: { projectId: string } | undefined,
): Promise<Due | undefined> => {
  const within = only ? sql`and s.project_id = ${only.projectId}::uuid` : sql``;
  const after = cursor
    ? sql`and (s.project_id, s.rule_id, s.trigger_no) >
        (${cursor.projectId}::uuid, ${cursor.ruleId}::uuid, ${cursor.triggerNo}::int)`
    : sql``;
  const found = await sql<DueRow>`
    select s.project_id as "projectId", s.rule_id as "ruleId", s.trigger_no as "triggerNo", s.due_at as "dueAt",
      s.after_player as "afterPlayer", v.definition
    ${dueSchedules(now)} ${within} ${after}
    order by s.project_id, s.rule_id, s.trigger_no limit 1 for update of s skip locked`.execute(db);
  const [row] = found.rows;
  if (!row) return undefined;
  const { dueAt, definition, ...due } = row;
  const trigger = definition.triggers[due.triggerNo];
  return { ...due, dueMs: dueAt.getTime(), trigger: trigger?.kind === "SCHEDULE" ? trigger : undefined };
};

const isBacklogged = async ({ db }: Work, projectId: string): Promise<boolean> => {
  const found = await sql<{ n: number }>`
    select count(*) as n from (
      select 1 from event_q where project_id = ${projectId} limit ${BACKLOG_MAX}) q`.execute(db);
  return found.rows[0]!.n === BACKLOG_MAX;
};

type PagedPlayer = { id: string; external_user_id: string };

/** Reads the next ACTIVE players, or those of them in a segment, in id order. */
const readPage = async (
  { db }: Work,
  { projectId, afterPlayer }: Due,
  segmentKey: string | undefined,
): Promise<PagedPlayer[]> => {
  const after = afterPlayer ?? NIL_ID;
  const page =
    segmentKey === undefined
      ? sql<PagedPlayer>`
          select id, external_user_id from players
          where project_id = ${projectId} and status = 'ACTIVE' and id > ${after}::uuid
          order by id limit ${SCHEDULE_PAGE}`
      : sql<PagedPlayer>`
          select p.id, p.external_user_id from player_segments m
          join players p on p.project_id = m.project_id and p.id = m.player_id and p.status = 'ACTIVE'
          where m.project_id = ${projectId} and m.segment_key = ${segmentKey} and m.player_id > ${after}::uuid
          order by m.player_id limit ${SCHEDULE_PAGE}`;
  return (await page.execute(db)).rows;
};

const insertEvents = async (work: Work, due: Due, players: readonly PagedPlayer[]): Promise<void> => {
  const { projectId, ruleId, triggerNo, dueMs } = due;
  const at = new Date(dueMs).toISOString();
  // Ids are of the server's time, behind which an advanced clock never is.
  const idMs = Math.min(dueMs, work.serverNow.getTime());
  const run = idMs === dueMs ? "" : ` ${dueMs}`;
  const rows = players.map((player) => ({
    i: idFor(idMs, `${ruleId} ${triggerNo} ${player.id}${run}`),
    u: player.external_user_id,
    h: partitionOf(projectId, player.external_user_id),
  }));
  // Files for a warehouse may have come past such ids: then it is told of them as of what has changed.
  const isLate = idMs < work.serverNow.getTime() - LATE_MS;
  const told = insertWarehouseChanges(projectId, "CHANGED", sql`select id as ref from e where ${isLate}`);
  await sql`
    with r as materialized (
      select * from json_to_recordset(${JSON.stringify(rows)}::json) as r(i uuid, u text, h smallint)),
    e as (
      insert into tracked_events
        (project_id, id, external_user_id, event_type, properties, occurred_at, received_at)
      select ${projectId}::uuid, i, u, ${SCHEDULE_TYPE},
        ${JSON.stringify({ ruleId, triggerNo, dueAt: at })}::jsonb, ${at}::timestamptz,
        ${work.now.toISOString()}::timestamptz
      from r on conflict do nothing returning id),
    told as (${told})
    insert into event_q (project_id, part, event_id)
    select ${projectId}::uuid, r.h, r.i from e join r on r.i = e.id order by r.i`.execute(work.db);
  work.wakeEvents(rows.map(({ h }) => h));
};

/** Sets when a schedule is due again, for the players behind one or for all; without a time it ends. */
const setDue = async (
  { db }: Work,
  { projectId, ruleId, triggerNo }: Due,
  { dueMs, afterPlayer = null }: { dueMs: number | undefined; afterPlayer?: string | null },
): Promise<void> => {
  const its = sql`project_id = ${projectId} and rule_id = ${ruleId} and trigger_no = ${triggerNo}`;
  const statement =
    dueMs === undefined
      ? sql`delete from rule_schedules where ${its}`
      : sql`update rule_schedules set due_at = ${new Date(dueMs).toISOString()}::timestamptz,
          after_player = ${afterPlayer}::uuid where ${its}`;
  await statement.execute(db);
};
