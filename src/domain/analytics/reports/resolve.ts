import { sql } from "kysely";
import { notFound } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import type { FrameQuery } from "../ask.ts";
import { checkZone, type RangeQuery, readAsOf } from "../range.ts";
import { datesOf, type RelativeRange } from "./relative-range.ts";

/** Returns the zone of a project. @throws DomainError NOT_FOUND */
export const zoneOfProject = async ({ db }: Work, projectId: string): Promise<string> => {
  const { rows } = await sql<{ timezone: string }>`
    select timezone from projects where id = ${projectId}::uuid`.execute(db);
  if (!rows[0]) throw notFound("project");
  return rows[0].timezone;
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
    timezone: checkZone(question.timezone ?? (await zoneOfProject(work, projectId))),
    weekStart: question.weekStart ?? "monday",
    asOfMs: readAsOf(question.asOf, work.now.getTime()),
  };
  return { ...question, ...datesOf(frame, range) };
};
