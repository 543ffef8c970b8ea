import { isDeepStrictEqual } from "node:util";
import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { auditDefinition } from "../../accounts/audit/audit.ts";
import { ask } from "../ask.ts";
import { slugOf } from "../exports/reports.ts";
import {
  asOfReport,
  atDates,
  type GivenSchedule,
  nextDueMs,
  readProjectDays,
  type RelativeRange,
  ReportDescription,
  ReportKind,
  ReportName,
  ReportParameters,
  ReportRange,
  savedKind,
  type SavedKindName,
  type Schedule,
  ScheduleTimes,
  type StoredQuestion,
} from "./schedule.ts";
import { Key } from "../../evaluation/language/syntax.ts";
import { EVERY_ROLE, type Role } from "../../kernel/caller.ts";
import { conflict, DomainError, notFound } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { shown } from "../../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { countRows, lockRoom, type Total, type Work } from "../../kernel/work.ts";
import { cancelJobs } from "../../long-work/project-jobs.ts";

const listOf = (ids: readonly string[]) => sql`
  (select value::uuid from json_array_elements_text(${JSON.stringify(ids)}::json))`;

/** Returns those ids that are of members of the project's tenant. */
const membersAmong = async ({ db }: Work, projectId: string, ids: readonly string[]): Promise<string[]> => {
  if (ids.length === 0) return [];
  const { rows } = await sql<{ id: string }>`
    select u.id from users u join projects p on p.tenant_id = u.tenant_id
    where p.id = ${projectId}::uuid and u.id in ${listOf(ids)}`.execute(db);
  const known = new Set(rows.map(({ id }) => id));
  return ids.filter((id) => known.has(id));
};

/** @throws DomainError VALIDATION_ERROR for ids that are not those of members of the project's tenant */
const checkMembers = async (work: Work, projectId: string, ids: readonly string[]): Promise<void> => {
  const known = new Set(await membersAmong(work, projectId, ids));
  const details = ids.flatMap((id, i) =>
    known.has(id) ? [] : [{ field: `schedule.mailTo.${i}`, message: "is not a member of the team" }],
  );
  const [first] = details;
  if (first) throw new DomainError("VALIDATION_ERROR", `${first.field}: ${first.message}`, { details });
};

/** A member who is told of a report. */
type Recipient = { id: string; email: string };

type MemberRow = Recipient & { role: Role };

/** Returns those of a tenant's members who may read analytics now, and sign in to do so. */
export const readersAmong = async (
  { db }: Work,
  tenantId: string,
  ids: readonly string[],
): Promise<Recipient[]> => {
  if (ids.length === 0) return [];
  const { rows } = await sql<MemberRow>`
    select u.id, u.email, u.role from users u join tenants t on t.id = u.tenant_id
    where u.tenant_id = ${tenantId}::uuid and u.id in ${listOf(ids)}
      and u.status = 'ACTIVE' and u.disabled_at is null
      and t.approval_status = 'APPROVED' and t.deleted_at is null
    order by u.id`.execute(db);
  return rows.filter(({ role }) => EVERY_ROLE.includes(role)).map(({ id, email }) => ({ id, email }));
};

/** Maximum saved reports of a project. */
export const REPORTS_MAX = 100;

/** A saved report. */
type Row = {
  id: string;
  /** Names it in every project that has it. */
  key: string;
  name: string;
  description: string | null;
  report: SavedKindName;
  /** Those of the report's operation, as they were given. */
  parameters: Readonly<Record<string, unknown>>;
  range: RelativeRange | null;
  schedule: Schedule | null;
  /** When it is run next by its schedule. */
  nextRunAt: Date | null;
  createdBy: string;
  createdAt: Date;
  updatedAt: Date;
};

const SHOWN = sql`
  id, key, name, description, report, parameters, "range", schedule, next_at as "nextRunAt",
  created_by as "createdBy", created_at as "createdAt", updated_at as "updatedAt"`;

const show = (row: Row) =>
  shown(row, [
    ...(["id", "key", "name", "description", "report", "parameters", "range", "schedule"] as const),
    ...(["nextRunAt", "createdBy", "createdAt", "updatedAt"] as const),
  ]);

/** A saved report in the API. */
type SavedReport = ReturnType<typeof show>;

/** What is asked by a report. `question`: its parameters, as its operation has parsed them. */
export type SavedQuestion = Pick<SavedReport, "report" | "parameters" | "range"> & {
  question: StoredQuestion;
};

/** A saved report that can be asked. */
type AskableReport = SavedReport & { question: StoredQuestion };

export type ReportRef = { projectId: string; id: string };

const one = ({ projectId, id }: ReportRef): RawBuilder<unknown> =>
  sql`project_id = ${projectId}::uuid and id = ${id}::uuid`;

/** @throws DomainError NOT_FOUND */
const findRow = async ({ db }: Work, ref: ReportRef, lock = sql``) => {
  const { rows } = isId(ref.id)
    ? await sql<Row & { question: StoredQuestion }>`
        select ${SHOWN}, question from analytics_reports where ${one(ref)} ${lock}`.execute(db)
    : { rows: [] };
  if (!rows[0]) throw notFound("report");
  return rows[0];
};

/** @throws DomainError NOT_FOUND */
export const getReport = async (work: Work, ref: ReportRef): Promise<SavedReport> =>
  show(await findRow(work, ref));

/** As `getReport`, with its question. @param lock what is locked of it @throws DomainError NOT_FOUND */
export const getAskable = async (work: Work, ref: ReportRef, lock = sql``): Promise<AskableReport> => {
  const row = await findRow(work, ref, lock);
  return { ...show(row), question: row.question };
};

/** A text as JSON for a column of it; null stays null. */
const json = (value: unknown): string | null =>
  value === null || value === undefined ? null : JSON.stringify(value);

type NewReport = SavedQuestion & {
  key?: string | undefined;
  name: string;
  description: string | null;
  schedule: GivenSchedule | null;
};

/** A schedule as it is stored, and when it is due next. */
type Planned = { schedule: Schedule | null; nextAt: string | null };

/**
 * Plans a schedule from now on: in its own zone, else that of the question, else the project's.
 * @throws DomainError VALIDATION_ERROR for those to be told who are not members
 */
const plan = async (
  work: Work,
  projectId: string,
  { schedule, question }: { schedule: GivenSchedule | null; question: StoredQuestion },
): Promise<Planned> => {
  if (schedule === null) return { schedule, nextAt: null };
  await checkMembers(work, projectId, schedule.mailTo);
  const timezone =
    schedule.timezone ?? question.timezone ?? (await readProjectDays(work, projectId)).timezone;
  const planned: Schedule = { ...schedule, timezone };
  return {
    schedule: planned,
    nextAt: new Date(nextDueMs(planned, work.serverNow.getTime())).toISOString(),
  };
};

/**
 * Returns the key of a new report: the one that is wanted, else one like its name.
 * @throws DomainError CONFLICT KEY_TAKEN
 */
const keyOf = (keys: readonly string[], { key, name }: Pick<NewReport, "key" | "name">): string => {
  const taken = new Set(keys);
  if (key !== undefined) {
    if (taken.has(key)) throw conflict("KEY_TAKEN", `there is a report ${key} already`);
    return key;
  }
  const like = slugOf(name) || "report";
  for (let n = 1; ; n++) {
    const made = n === 1 ? like : `${like}-${n}`;
    if (!taken.has(made)) return made;
  }
};

/** Saves a report. @throws DomainError CONFLICT REPORT_LIMIT, KEY_TAKEN */
export const createReport = async (
  work: Work,
  projectId: string,
  { createdBy, ...made }: NewReport & { createdBy: string },
): Promise<SavedReport> => {
  await lockRoom(work, projectId, "reports");
  const kept = await sql<{ key: string }>`
    select key from analytics_reports where project_id = ${projectId}::uuid`.execute(work.db);
  if (kept.rows.length >= REPORTS_MAX)
    throw conflict("REPORT_LIMIT", `a project has at most ${REPORTS_MAX} saved reports: delete one`);
  const key = keyOf(
    kept.rows.map((row) => row.key),
    made,
  );
  const id = newId();
  const { schedule, nextAt } = await plan(work, projectId, made);
  const now = work.serverNow.toISOString();
  const { rows } = await sql<Row>`
    insert into analytics_reports
      (project_id, id, key, name, description, report, parameters, "range", question, schedule, next_at,
        created_by, created_at, updated_at)
    values (${projectId}::uuid, ${id}::uuid, ${key}, ${made.name}, ${made.description}, ${made.report},
      ${json(made.parameters)}::jsonb, ${json(made.range)}::jsonb, ${json(made.question)}::jsonb,
      ${json(schedule)}::jsonb, ${nextAt}::timestamptz, ${createdBy},
      ${now}::timestamptz, ${now}::timestamptz)
    returning ${SHOWN}`.execute(work.db);
  await auditDefinition(work, "analytics_report.created", { projectId, id, key });
  return show(rows[0]!);
};

/** What a change may have; what it leaves out stays. */
type ReportChange = Partial<SavedQuestion> & {
  name?: string | undefined;
  description?: string | null | undefined;
  schedule?: GivenSchedule | null | undefined;
};

/** Changes a report. @throws DomainError NOT_FOUND */
export const updateReport = async (
  work: Work,
  ref: ReportRef,
  change: ReportChange,
): Promise<SavedReport> => {
  const row = await findRow(work, ref, sql`for update`);
  const next = {
    ...row,
    ...Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)),
  };
  const planned: Planned =
    change.schedule === undefined
      ? { schedule: row.schedule, nextAt: isoOf(row.nextRunAt) }
      : await plan(work, ref.projectId, { ...next, schedule: change.schedule });
  const { rows } = await sql<Row>`
    update analytics_reports set name = ${next.name}, description = ${next.description},
      report = ${next.report}, parameters = ${json(next.parameters)}::jsonb,
      "range" = ${json(next.range)}::jsonb, question = ${json(next.question)}::jsonb,
      schedule = ${json(planned.schedule)}::jsonb, next_at = ${planned.nextAt}::timestamptz,
      updated_at = ${work.serverNow.toISOString()}::timestamptz
    where ${one(ref)} returning ${SHOWN}`.execute(work.db);
  await auditDefinition(work, "analytics_report.updated", ref);
  return show(rows[0]!);
};

/** Deletes a report with its runs, and ends those before their next step. @throws DomainError NOT_FOUND */
export const deleteReport = async (work: Work, ref: ReportRef): Promise<void> => {
  await findRow(work, ref, sql`for update`);
  const runs = sql`analytics_report_runs
    where project_id = ${ref.projectId}::uuid and report_id = ${ref.id}::uuid`;
  // In the order of a step: the job first.
  await cancelJobs(work, sql`project_id = ${ref.projectId}::uuid and id in (select id from ${runs})`);
  await sql`delete from ${runs}`.execute(work.db);
  await sql`delete from analytics_reports where ${one(ref)}`.execute(work.db);
  await auditDefinition(work, "analytics_report.deleted", ref);
};

/** Orders of the list. */
export const REPORT_ORDERS = {
  by: { createdAt: sql`created_at`, updatedAt: sql`updated_at`, name: sql`name` },
  usual: "desc",
} as const;

type ListReports = PageQuery & Ordered<SortOf<typeof REPORT_ORDERS>> & { report?: SavedKindName | undefined };

/** Returns a page of a project's reports. */
export const listReports = async (
  work: Work,
  projectId: string,
  query: ListReports,
): Promise<Total & { reports: SavedReport[] }> => {
  const kind = query.report ?? null;
  const where = sql`project_id = ${projectId}::uuid and (${kind}::text is null or report = ${kind})`;
  const { rows } = await sql<Row>`
    select ${SHOWN} from analytics_reports where ${where}
    order by ${orderBy(REPORT_ORDERS, query, sql`id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { reports: rows.map(show), ...(await countRows(work, sql`analytics_reports where ${where}`)) };
};

/**
 * A saved report as a configuration has it: without ids, so that it means the same in every project. The rule
 * of an experiment is named by its key, and who is told of runs is not part of it.
 */
export const ReportDocument = z.strictObject({
  key: Key,
  name: ReportName,
  description: ReportDescription.default(null),
  report: ReportKind,
  parameters: ReportParameters.default({}),
  range: ReportRange.default(null),
  schedule: ScheduleTimes.nullable().default(null).meta({
    description: "Without mailTo: an import keeps those who are told",
  }),
});
export type ReportDocument = z.output<typeof ReportDocument>;

/** A report of a project as a document, and its question as its operation has parsed it. */
type KeptReport = { document: ReportDocument; question: StoredQuestion };

type DocumentRow = Omit<ReportDocument, "schedule"> & {
  question: StoredQuestion;
  schedule: Schedule | null;
  ruleKey: string | null;
};

const timesOf = (schedule: Schedule | null): ScheduleTimes | null => {
  if (schedule === null) return null;
  const { mailTo: _, ...times } = schedule;
  return times;
};

/** Reads the saved reports of a project, by key. A rule that was named by its id is named by its key. */
export const readReports = async ({ db }: Work, projectId: string): Promise<KeptReport[]> => {
  const { rows } = await sql<DocumentRow>`
    select r.key, r.name, r.description, r.report, r.parameters, r."range", r.schedule, r.question,
      u.key as "ruleKey"
    from analytics_reports r
    left join rules u on u.project_id = r.project_id and r.report = 'experiments'
      and u.id::text = lower(r.parameters ->> 'ruleId')
    where r.project_id = ${projectId}::uuid order by r.key`.execute(db);
  return rows.map(({ question, schedule, ruleKey, parameters, ...rest }) => {
    const named = ruleKey === null ? {} : { ruleId: ruleKey };
    return {
      document: { ...rest, parameters: { ...parameters, ...named }, schedule: timesOf(schedule) },
      question: { ...question, ...named },
    };
  });
};

type Put = KeptReport & {
  /** Who makes it, where it is new. */
  actor: string;
};

/**
 * Makes the report of a key what a document says, or makes one. A schedule keeps the zone that the document
 * leaves out, those who are told as far as they are members still, and, unless its times change, its next
 * run.
 * @throws DomainError CONFLICT REPORT_LIMIT
 */
export const putReport = async (
  work: Work,
  projectId: string,
  { document: { schedule: times, ...rest }, question, actor }: Put,
): Promise<void> => {
  const { rows } = await sql<{ id: string; schedule: Schedule | null }>`
    select id, schedule from analytics_reports
    where project_id = ${projectId}::uuid and key = ${rest.key}`.execute(work.db);
  const [known] = rows;
  const before = known?.schedule;
  const mailTo = times && before ? await membersAmong(work, projectId, before.mailTo) : [];
  const schedule = times && { ...(before ? { timezone: before.timezone } : {}), ...times, mailTo };
  if (!known) {
    await createReport(work, projectId, { ...rest, question, schedule, createdBy: actor });
    return;
  }
  const { key: _, ...change } = rest;
  const isSame = before && times && isDeepStrictEqual(timesOf(before), timesOf(schedule as Schedule));
  const planned = isSame ? {} : { schedule };
  await updateReport(work, { projectId, id: known.id }, { ...change, question, ...planned });
};

/** Refuses a report of an experiment of a rule that is not there. @throws DomainError NOT_FOUND */
export const checkRuleOf = async (
  { db }: Work,
  projectId: string,
  { report, parameters }: ReportDocument,
): Promise<void> => {
  if (report !== "experiments") return;
  const key = String(parameters["ruleId"]);
  const { rows } = await sql`
    select from rules where project_id = ${projectId}::uuid and key = ${key}`.execute(db);
  if (rows.length === 0) throw notFound(`rule ${key}`);
};

/**
 * Refuses a report that could not be asked, without asking it: for its range, its comparison, the points of
 * its series, or the rule of its experiment.
 * @throws DomainError VALIDATION_ERROR with the field of the report; PAYMENT_REQUIRED
 */
export const checkReport = async (
  work: Work,
  projectId: string,
  { document, question }: KeptReport,
): Promise<void> => {
  const { report, range } = document;
  const { report: computed, daysMax } = savedKind(report);
  const { shown: _, ...stored } = question;
  try {
    await checkRuleOf(work, projectId, document);
    const query = await atDates(work, projectId, { question: stored, range });
    // The first event of all would have to be searched for.
    if (query.period === "all") return;
    computed.check?.(await ask(work, { projectId, query, daysMax }), query);
  } catch (error) {
    throw asOfReport(error, range);
  }
};
