import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { sql } from "kysely";
import { z } from "zod";
import { ask, type Envelope, type FrameQuery } from "../ask.ts";
import {
  cohortReport,
  columnsOf,
  type ComputedReport,
  experimentReport,
  funnelReport,
  overviewReport,
  retentionReport,
  segmentReport,
  trendReport,
} from "../exports/columns.ts";
import { EXPORT_KEPT_MS } from "../exports/export-job.ts";
import { type ExportFormat, type Put, writeComputed } from "../exports/reports.ts";
import {
  type DayFrame,
  type ProjectDays,
  type RangeQuery,
  dateOfDay,
  DAY_MS,
  dayFrame,
  intervalAfter,
  intervalOf,
  localDay,
  monthOf,
  readAsOf,
  showRange,
} from "../range.ts";
import { inProjectTime } from "../../accounts/projects/project.ts";
import { BUILDERS } from "../../kernel/caller.ts";
import { DomainError, invalid, notFound } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { CALENDAR_UNITS, firstInstant, isIanaName, localTime } from "../../kernel/zones.ts";
import { jobKind } from "../../long-work/project-jobs.ts";

/** How a kind of report is asked beside its own fields. */
type SavedKind = {
  report: ComputedReport;
  /** Days of its range, where not as many as a series may have points. */
  daysMax?: number;
  /** Parameters that name one of its numbers, by which the players behind it are listed. */
  players?: readonly string[];
};

/** What can be saved, each a question with an operation of its own. */
const SAVED_KINDS = {
  overview: { report: overviewReport, players: ["metric"] },
  trends: { report: trendReport },
  segments: { report: segmentReport, players: ["segment"] },
  retention: {
    report: retentionReport,
    daysMax: Infinity,
    players: ["cohort", "offset", "returned"],
  },
  cohorts: { report: cohortReport, daysMax: Infinity, players: ["cohort", "segment", "k"] },
  funnels: { report: funnelReport, daysMax: Infinity, players: ["step", "state", "value"] },
  experiments: { report: experimentReport, players: ["ruleId", "group"] },
} as const satisfies Record<string, SavedKind>;
export type SavedKindName = keyof typeof SAVED_KINDS;
export const SAVED_KIND_NAMES = Object.keys(SAVED_KINDS) as SavedKindName[];

/** @returns how reports of a kind are asked */
export const savedKind = (name: SavedKindName): SavedKind => SAVED_KINDS[name];

/**
 * A question as its operation has parsed it, so that it can be asked without that. `shown`: what its answer
 * repeats of it.
 */
export type StoredQuestion = Readonly<Record<string, unknown>> &
  FrameQuery &
  RangeQuery & { shown?: Readonly<Record<string, unknown>> };

const UNITS_MAX = 1_000;
const INTERVALS = { DAY: "day", WEEK: "week", MONTH: "month" } as const;

/** A range that is another one each day, week or month. */
export const RelativeRange = z.strictObject({
  last: z.int().min(1).max(UNITS_MAX).meta({ description: "How many days, weeks or months" }),
  unit: z.enum(CALENDAR_UNITS),
  current: z.boolean().default(false).meta({
    description: "Whether the one that is going on is the last of them; else only those that are over",
  }),
});
export type RelativeRange = z.output<typeof RelativeRange>;

/** Where and when a range is asked for. `asOfMs`: what is over then is whole. */
type RangeFrame = DayFrame & { asOfMs: number };

/** Returns the local dates that a relative range has at a moment, both included. */
const datesOf = (frame: RangeFrame, { last, unit, current }: RelativeRange): { from: string; to: string } => {
  const interval = INTERVALS[unit];
  const day = localDay(frame, frame.asOfMs);
  const running = intervalOf(interval, day, frame.weekStart);
  const first = intervalAfter(interval, running, current ? 1 - last : -last);
  return { from: dateOfDay(first), to: dateOfDay(current ? day : running - 1) };
};

const NAME_MAX = 100;
const DESCRIPTION_MAX = 500;
const PARAMETERS_MAX = 100;
/** Maximum bytes of the parameters of a report, as JSON. */
export const PARAMETERS_MAX_BYTES = 16_384;

export const ReportName = z.string().trim().min(1).max(NAME_MAX);
export const ReportDescription = z.string().max(DESCRIPTION_MAX).nullable();
export const ReportKind = z.enum(SAVED_KIND_NAMES);

export const ReportParameters = z
  .record(z.string().max(600), z.unknown())
  .superRefine((parameters, context) => {
    const refuse = (message: string): void => context.addIssue({ code: "custom", message });
    if (Object.keys(parameters).length > PARAMETERS_MAX) refuse(`at most ${PARAMETERS_MAX} parameters`);
    if (Buffer.byteLength(JSON.stringify(parameters)) > PARAMETERS_MAX_BYTES)
      refuse(`at most ${PARAMETERS_MAX_BYTES} bytes of JSON`);
  })
  .meta({
    description:
      "Those of the report's operation; lists may be lists. Of funnels also the body of POST " +
      "/analytics/funnels, of experiments also ruleId",
    example: { metric: "activePlayers", interval: "day" },
  });

export const ReportRange = RelativeRange.nullable().meta({
  description: "In place of from, to and period: counted back from each run",
});

/**
 * Writes the answer of a report as a file, as GET /analytics/export does.
 * @param put takes the next piece
 * @returns the number of rows
 */
export const writeAnswer = (
  { report: name, answer }: { report: SavedKindName; answer: unknown },
  format: ExportFormat,
  put: Put,
): Promise<number> => {
  const { report } = savedKind(name);
  const style = { format, bom: false, raw: false };
  return writeComputed({ columns: columnsOf(report.columns, undefined), style }, report.rows(answer), put);
};

/** The field of a report that a field of its question is. */
const fieldOf = (field: string, range: RelativeRange | null): string =>
  range !== null && ["from", "to", "range"].includes(field) ? "range" : `parameters.${field}`;

/** Returns an error of a question as one of the report that asks it: with the fields of the report. */
export const asOfReport = (error: unknown, range: RelativeRange | null): unknown => {
  if (!(error instanceof DomainError)) return error;
  const { code, message, reason } = error;
  // What an experiment has no rule for is not the caller's path here.
  if (code === "NOT_FOUND" || code === "CONFLICT") return invalid("parameters.ruleId", message);
  if (code !== "VALIDATION_ERROR") return error;
  const details = error.details.map((one) => ({ ...one, field: fieldOf(one.field, range) }));
  const [first] = details;
  const text = first ? `${first.field}: ${first.message}` : message;
  return new DomainError(code, text, { details, ...(reason === undefined ? {} : { reason }) });
};

/** Returns the calendar of a project. @throws DomainError NOT_FOUND */
export const readProjectDays = async ({ db }: Work, projectId: string): Promise<ProjectDays> => {
  const { rows } = await sql<ProjectDays>`
    select timezone, settings from projects where id = ${projectId}::uuid`.execute(db);
  if (!rows[0]) throw notFound("project");
  return rows[0];
};

/**
 * Returns a question with the dates that its relative range has at its `asOf`, or now.
 * @throws DomainError VALIDATION_ERROR for a zone or a moment that is none
 */
export const atDates = async <Q extends FrameQuery & RangeQuery>(
  work: Work,
  projectId: string,
  { question, range }: { question: Q; range: RelativeRange | null },
): Promise<Q> => {
  if (range === null) return question;
  const frame = {
    ...dayFrame(await readProjectDays(work, projectId), question),
    asOfMs: readAsOf(question.asOf, work.now.getTime()),
  };
  return { ...question, ...datesOf(frame, range) };
};

const compress = promisify(gzip);
/** Maximum characters of an answer that is kept: whoever reads it as a table parses it in one go. */
const ANSWER_MAX = 16 * 1024 * 1024;

type Run = {
  cause: "SCHEDULE" | "REQUEST";
  due_at: Date;
  report: SavedKindName;
  question: StoredQuestion;
  range: RelativeRange | null;
};

type Ref = { projectId: string; id: string };

/** Locks a run; undefined for one whose report was deleted. */
const lockRun = async ({ db }: Work, { projectId, id }: Ref): Promise<Run | undefined> => {
  const { rows } = await sql<Run>`
    select cause, due_at, report, question, "range" from analytics_report_runs
    where project_id = ${projectId}::uuid and id = ${id}::uuid for update`.execute(db);
  return rows[0];
};

/**
 * The moment that a run is asked at: that at which it was due, however late it is, so that each try has the
 * same range. What is due as a day begins is asked in that day, not at the very end of the day before.
 */
const momentOf = ({ now, serverNow }: Work, { cause, due_at }: Run): string => {
  const aheadMs = now.getTime() - serverNow.getTime();
  const dueMs = due_at.getTime() + (cause === "SCHEDULE" ? 1 : 0);
  return new Date(Math.min(now.getTime(), dueMs + aheadMs)).toISOString();
};

/** Answers a report as its operation does, but not from memory. */
const answerOf = async (work: Work, projectId: string, run: Run): Promise<Envelope & object> => {
  const { report, daysMax, players } = savedKind(run.report);
  const { shown, ...stored } = run.question;
  const question = { ...stored, asOf: stored.asOf ?? momentOf(work, run) };
  const query = await atDates(work, projectId, { question, range: run.range });
  const asked = await ask(work, { projectId, query, daysMax });
  const answer = (await report.read(work, asked, query)) as object;
  return {
    range: showRange(asked.frame, asked.range),
    timezone: asked.frame.timezone,
    asOf: new Date(asked.frame.asOfMs).toISOString(),
    generatedAt: work.now.toISOString(),
    cache: { hit: false, ageSeconds: 0 },
    ...shown,
    ...(players ? { players: { path: "/analytics/players", of: run.report, and: players } } : {}),
    ...answer,
  };
};

const finish = async (work: Work, { projectId, id }: Ref, answer: Envelope): Promise<void> => {
  const text = JSON.stringify(answer);
  if (text.length > ANSWER_MAX)
    throw new DomainError("PAYLOAD_TOO_LARGE", `the answer has more than ${ANSWER_MAX} characters`);
  const { range, timezone } = answer;
  const now = work.serverNow;
  await sql`
    update analytics_report_runs set status = 'SUCCEEDED', result = ${await compress(text)}::bytea,
      answered = ${JSON.stringify({ from: range.from, to: range.to, timezone })}::jsonb,
      finished_at = ${now.toISOString()}::timestamptz,
      result_until = ${new Date(now.getTime() + EXPORT_KEPT_MS).toISOString()}::timestamptz
    where project_id = ${projectId}::uuid and id = ${id}::uuid`.execute(work.db);
};

/** Runs a saved report and keeps its answer. A run that has ended is told of by another transaction. */
export const reportRun = jobKind({
  kind: "ANALYTICS_REPORT",
  access: { scope: "config:manage", roles: BUILDERS },
  params: z.object({}),
  // Rollups answer within one snapshot alone.
  isSnapshot: true,
  step: async (work, { id, projectId }) => {
    const run = await lockRun(work, { projectId, id });
    if (!run) return { result: { runId: id, deleted: true } };
    await finish(
      work,
      { projectId, id },
      await answerOf(await inProjectTime(work, projectId), projectId, run),
    );
    return { result: { runId: id } };
  },
});

const HOUR_MS = 3_600_000;
/** Members who are told of a run. */
export const MAIL_TO_MAX = 20;
/** No two due days of a schedule are further apart. */
const DAYS_MAX = 32;

/** When a report is run by itself, and who is told. */
export const ScheduleFields = z.strictObject({
  every: z.enum(CALENDAR_UNITS),
  hour: z.int().min(0).max(23).meta({ description: "Of the clocks of the zone" }),
  weekday: z.int().min(1).max(7).optional().meta({ description: "With every=WEEK: 1 is Monday" }),
  day: z
    .int()
    .min(1)
    .max(31)
    .optional()
    .meta({ description: "With every=MONTH: of the month; shorter months have it on their last day" }),
  timezone: z
    .string()
    .min(1)
    .max(64)
    .refine(isIanaName, { error: "must be an IANA time zone, such as Europe/Berlin" })
    .optional()
    .meta({ description: "IANA name. Default: that of the report's parameters, else the project's" }),
  mailTo: z.array(z.uuid()).max(MAIL_TO_MAX).default([]).meta({
    description: "Ids of members of the team, who get a mail with a link after each run, and no data",
  }),
});

const MISPLACED = "is for another every";

const refuse = (context: z.RefinementCtx, field: string, message: string): void =>
  context.addIssue({ code: "custom", path: [field], message });

type Days = Pick<z.output<typeof ScheduleFields>, "every" | "weekday" | "day">;

/** Refuses a schedule without the day that its `every` needs, or with another. */
const checkDays = ({ every, weekday, day }: Days, context: z.RefinementCtx): void => {
  if (every === "WEEK" && weekday === undefined) refuse(context, "weekday", "is needed with every=WEEK");
  if (every === "MONTH" && day === undefined) refuse(context, "day", "is needed with every=MONTH");
  if (every !== "WEEK" && weekday !== undefined) refuse(context, "weekday", MISPLACED);
  if (every !== "MONTH" && day !== undefined) refuse(context, "day", MISPLACED);
};

/** As `ScheduleFields`, with the day that `every` needs. */
export const CheckedSchedule = ScheduleFields.superRefine((schedule, context) => {
  checkDays(schedule, context);
  const { mailTo } = schedule;
  if (new Set(mailTo).size < mailTo.length) refuse(context, "mailTo", "must not repeat");
});

/** The same without those to be told: people belong to a team, and not to a project. */
export const ScheduleTimes = ScheduleFields.omit({ mailTo: true }).superRefine(checkDays);
export type ScheduleTimes = z.output<typeof ScheduleTimes>;

/** A schedule as it was given: its zone may be that of something else. */
export type GivenSchedule = z.output<typeof ScheduleFields>;
/** A schedule as it is stored: its zone is known. */
export type Schedule = GivenSchedule & { timezone: string };

/** The times of a schedule. */
export type Times = Pick<Schedule, "every" | "hour" | "weekday" | "day" | "timezone">;

/** Whether a run is due on a local day, given in days since 1970-01-01. */
const isOn = ({ every, weekday, day }: Times, date: number): boolean => {
  if (every === "DAY") return true;
  // 1970-01-01 was a Thursday.
  if (every === "WEEK") return ((((date + 3) % 7) + 7) % 7) + 1 === weekday;
  const first = monthOf(date);
  const days = monthOf(date, 1) - first;
  return date - first + 1 === Math.min(day!, days);
};

/** An hour that the clocks skip is due at the end of the gap, and one that comes twice the first time. */
const dueOn = ({ hour, timezone }: Times, date: number): number =>
  firstInstant(timezone, date * DAY_MS + hour * HOUR_MS);

/** Returns the next time after a moment at which a schedule is due, in ms: once for each of its days. */
export const nextDueMs = (times: Times, afterMs: number): number => {
  const today = localTime(times.timezone, afterMs).dayNumber;
  // Clocks that skip a day put its hour into the next one.
  for (let date = today - 2; date <= today + DAYS_MAX; date++) {
    if (!isOn(times, date)) continue;
    const due = dueOn(times, date);
    if (due > afterMs) return due;
  }
  throw new Error("a schedule has a due day in every month");
};

/** Returns the last time at or before a moment at which a schedule was due, in ms. */
export const lastDueMs = (times: Times, atMs: number): number => {
  const today = localTime(times.timezone, atMs).dayNumber;
  for (let date = today + 1; date >= today - DAYS_MAX; date--) {
    if (!isOn(times, date)) continue;
    const due = dueOn(times, date);
    if (due <= atMs) return due;
  }
  throw new Error("a schedule has a due day in every month");
};
