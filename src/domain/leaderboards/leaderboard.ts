import { defineEntity, p } from "@mikro-orm/core";
import type { Definition } from "./definition.ts";
import type { Board, BoardStatus } from "./scoring.ts";

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
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
/** A ranking of a project's players. */
export class Leaderboard extends LeaderboardSchema.class {}
LeaderboardSchema.setClass(Leaderboard);

export const boardOf = ({ id, key, periodId, status, definition }: Leaderboard): Board => {
  const { ties, sort, operator, scoreDecimals, metric } = definition;
  return { id, key, periodId, status, ties, sort, operator, scoreDecimals, metric };
};

/** A leaderboard as the API shows it. */
export const showLeaderboard = (leaderboard: Leaderboard) => {
  const { description, displayLimit, ...definition } = leaderboard.definition;
  return {
    id: leaderboard.id,
    key: leaderboard.key,
    name: leaderboard.name,
    description: description ?? null,
    status: leaderboard.status,
    ...definition,
    displayLimit: displayLimit ?? null,
    version: leaderboard.version,
    createdAt: leaderboard.createdAt.toISOString(),
    updatedAt: leaderboard.updatedAt.toISOString(),
  };
};
