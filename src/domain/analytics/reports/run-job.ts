import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { sql } from "kysely";
import { z } from "zod";
import { BUILDERS } from "../../kernel/access.ts";
import { DomainError, notFound } from "../../kernel/errors.ts";
import { jsonText } from "../../kernel/json-text.ts";
import { atProjectTime } from "../../kernel/project-time.ts";
import { inSlices } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { jobKind } from "../../long-work/job-kind.ts";
import { ask, type Envelope } from "../ask.ts";
import { EXPORT_KEPT_MS } from "../exports/export-job.ts";
import { showRange } from "../range.ts";
import { type SavedKindName, savedKind, type StoredQuestion } from "./kinds.ts";
import type { RelativeRange } from "./relative-range.ts";
import { atDates } from "./resolve.ts";

const compress = promisify(gzip);
/** Maximum characters of an answer that is kept: whoever reads it as a table parses it in one go. */
const ANSWER_MAX = 16 * 1024 * 1024;

type Run = {
  cause: "SCHEDULE" | "REQUEST";
  due_at: Date | string;
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

/** Returns the transaction at the time of the project's clock. */
const atOwnTime = async (work: Work, projectId: string): Promise<Work> => {
  const { rows } = await sql<{ ahead: string | number }>`
    select clock_ahead_ms as ahead from projects where id = ${projectId}::uuid`.execute(work.db);
  if (!rows[0]) throw notFound("project");
  return atProjectTime(work, { clockAheadMs: Number(rows[0].ahead) });
};

/**
 * The moment that a run is asked at: that at which it was due, however late it is, so that each try has the
 * same range. What is due as a day begins is asked in that day, not at the very end of the day before.
 */
const momentOf = ({ now, serverNow }: Work, { cause, due_at }: Run): string => {
  const aheadMs = now.getTime() - serverNow.getTime();
  const dueMs = new Date(due_at).getTime() + (cause === "SCHEDULE" ? 1 : 0);
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
  const text = await inSlices(jsonText(answer));
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
    await finish(work, { projectId, id }, await answerOf(await atOwnTime(work, projectId), projectId, run));
    return { result: { runId: id } };
  },
});
