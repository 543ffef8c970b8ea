import { defineEntity, p } from "@mikro-orm/core";
import type { Board, BoardStatus } from "../evaluation/boards/board.ts";
import type { Definition } from "../evaluation/boards/definition.ts";
import { DEFAULT_RANK_CHANGE } from "../evaluation/boards/definition-parts.ts";
import { toRankScore } from "../evaluation/boards/scoring.ts";

export const LeaderboardSchema = defineEntity({
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
