import { isDeepStrictEqual } from "node:util";
import { sql } from "kysely";
import { z } from "zod";
import { Key } from "../../evaluation/language/syntax.ts";
import { notFound } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { ask } from "../ask.ts";
import { ReportDescription, ReportKind, ReportName, ReportParameters, ReportRange } from "./fields.ts";
import { savedKind, type StoredQuestion } from "./kinds.ts";
import { membersAmong } from "./members.ts";
import { asOfReport } from "./refused.ts";
import { atDates } from "./resolve.ts";
import { createReport, updateReport } from "./saved-reports.ts";
import { type Schedule, ScheduleTimes } from "./schedule.ts";

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
export type KeptReport = { document: ReportDocument; question: StoredQuestion };

type Row = Omit<ReportDocument, "schedule"> & {
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
  const { rows } = await sql<Row>`
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

/** @throws DomainError NOT_FOUND for a key that is none of a rule */
const checkRule = async ({ db }: Work, projectId: string, key: string): Promise<void> => {
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
  { document: { report, range, parameters }, question }: KeptReport,
): Promise<void> => {
  const { report: computed, daysMax } = savedKind(report);
  const { shown: _, ...stored } = question;
  try {
    if (report === "experiments") await checkRule(work, projectId, String(parameters["ruleId"]));
    const query = await atDates(work, projectId, { question: stored, range });
    // The first event of all would have to be searched for.
    if (query.period === "all") return;
    computed.check?.(await ask(work, { projectId, query, daysMax }), query);
  } catch (error) {
    throw asOfReport(error, range);
  }
};
