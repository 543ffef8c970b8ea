import { type RawBuilder, sql } from "kysely";
import { invalid } from "../kernel/errors.ts";
import type { Work } from "../kernel/work.ts";
import type { Asked } from "./ask.ts";
import { dateOfDay } from "./calendar.ts";
import type { CohortQuestion } from "./cohort-table.ts";
import { cellsOf, type CohortParts, eachActive, isOfSums, partsOf } from "./cohorts.ts";
import { OTHER } from "./properties.ts";
import { FoundPlayers } from "./who.ts";

/** A number of `readCohorts`: the size of a row, which is a cohort or a segment; with `k` a cell of it. */
export type CohortNumber = {
  cohort?: string | undefined;
  segment?: string | undefined;
  k?: number | undefined;
};

/** @throws DomainError VALIDATION_ERROR for a column that the question does not have, or not of players */
const checkColumn = ({ periods, metric }: CohortQuestion, k: number): void => {
  if (k > periods) throw invalid("k", `may be at most ${periods}`);
  if (metric !== "players" && metric !== "rate")
    throw invalid("k", "is for the metrics players and rate: other values are no players");
};

/** @throws DomainError VALIDATION_ERROR. @returns the number of the cohort; -1 of a segment */
const checkNumber = ({ question, periods }: CohortParts, { cohort, segment, k }: CohortNumber): number => {
  if (k !== undefined) checkColumn(question, k);
  if (question.segmentBy) {
    if (segment === undefined || cohort !== undefined)
      throw invalid("segment", "names the row where a property divides players");
    return -1;
  }
  if (segment !== undefined) throw invalid("segment", "is for segmentBy=property");
  const wanted = periods.days.slice(0, periods.cohorts).findIndex((day) => dateOfDay(day) === cohort);
  if (wanted < 0)
    throw invalid("cohort", "must be the period of a cohort of the question, such as 2026-01-31");
  return wanted;
};

/**
 * Finds the players whom `readCohorts` counts in a row or a cell.
 * @returns a query of their ids, in the column player_id
 * @throws DomainError VALIDATION_ERROR as that, and for a row or a cell that the question does not have
 */
export const findCohortPlayers = async (
  work: Work,
  asked: Asked,
  question: CohortQuestion,
  number: CohortNumber,
): Promise<RawBuilder<unknown>> => {
  const parts = partsOf(asked, question);
  const wanted = checkNumber(parts, number);
  const { k = 0, segment } = number;
  const { isCumulative } = question;
  const isLater = number.k !== undefined && isCumulative;
  if (isOfSums(question)) {
    const row =
      segment === undefined ? sql`cohort = ${wanted}::int` : sql`coalesce(segment, ${OTHER}) = ${segment}`;
    const column = isLater ? sql`k >= ${k}::int` : sql`k = ${k}::int`;
    return sql`${cellsOf(parts)}
      select distinct player_id from cells where ${row} and ${column} and events > 0`;
  }
  const players = new FoundPlayers();
  await eachActive(work, parts, true, (stretches, _, who) => {
    const periodOf = (i: number): number => parts.cuts.periods[stretches[i]!]!;
    if (periodOf(0) !== wanted) return;
    for (let i = stretches.length - 1; i >= 0 && periodOf(i) - wanted >= k; i--)
      if (isLater || periodOf(i) - wanted === k) return players.add(who!);
  });
  return players.query(asked.frame);
};
