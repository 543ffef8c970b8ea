import { type RawBuilder, sql } from "kysely";
import { notFound } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import type { Asked } from "../ask.ts";
import type { CohortQuestion } from "../cohort-table.ts";
import { type CohortNumber, findCohortPlayers } from "../cohort-players.ts";
import { findFunnelPlayers, type FunnelNumber, type FunnelQuestion } from "../funnels.ts";
import { findRetained, type RetentionNumber } from "../retention.ts";
import type { RetentionQuestion } from "../retention-tally.ts";
import type { SegmentGroup } from "../segment-days.ts";
import { lastCompleteDay, placesAt, SEGMENTS, segmentsOf } from "../segments.ts";
import { FoundPlayers } from "../who.ts";

/** The questions whose numbers are of players that can be listed. */
export const LISTED = ["retention", "cohorts", "funnels", "segments"] as const;

/** A number of a question: its players are a list. */
export type ListQuestion =
  | { of: "retention"; question: RetentionQuestion; number: RetentionNumber }
  | { of: "cohorts"; question: CohortQuestion; number: CohortNumber }
  | { of: "funnels"; question: FunnelQuestion; number: FunnelNumber }
  | { of: "segments"; number: { group: SegmentGroup; segment: string } };

const findSegmentPlayers = async (
  work: Work,
  { frame }: Asked,
  { group, segment }: { group: SegmentGroup; segment: string },
): Promise<RawBuilder<unknown>> => {
  if (!SEGMENTS[group].some(({ key }) => key === segment)) throw notFound("segment");
  const at = { lastDay: lastCompleteDay(frame), untilMs: frame.asOfMs };
  const places = await placesAt(work, frame, at);
  if (!places)
    return sql`select player_id from (${segmentsOf(frame, at)}) s where ${sql.ref(group)} = ${segment}`;
  const players = new FoundPlayers();
  for (const { who, keys } of places) if (keys[group] === segment) players.add(who);
  return players.query(frame);
};

/**
 * Finds the players whom a question counts in a number, on the way on which it counts them.
 * @returns a query of their ids, in the column player_id
 * @throws DomainError VALIDATION_ERROR as the question, and for a number that it does not have; NOT_FOUND for
 *   a segment that there is not
 */
export const findListed = async (
  work: Work,
  asked: Asked,
  list: ListQuestion,
): Promise<RawBuilder<unknown>> => {
  switch (list.of) {
    case "retention":
      return (await findRetained(work, asked, list.question, list.number)).query(asked.frame);
    case "cohorts":
      return findCohortPlayers(work, asked, list.question, list.number);
    case "funnels":
      return (await findFunnelPlayers(work, asked, list.question, list.number)).query(asked.frame);
    case "segments":
      return findSegmentPlayers(work, asked, list.number);
  }
};
