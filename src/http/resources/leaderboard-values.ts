import { z } from "zod";
import type { App } from "../../app.ts";
import { pageBody, pageOf } from "../../domain/kernel/paging.ts";
import type { Aged } from "../../domain/kernel/caches.ts";
import {
  pageOfValues,
  type RankedValues,
  readRankedValues,
  VALUE_MEASURES,
  type ValuesQuery,
} from "../../domain/leaderboards/value-ranks.ts";
import { Reply } from "../route.ts";
import { AGED, ageOf, Fresh } from "./aged-answers.ts";
import { BoardValue, pageOrAround, PeriodKey, readBoards, WindowBody } from "./leaderboards.ts";

const ValueBody = z
  .object({
    rank: z.int().meta({ description: "Equal ones share a rank: 1-2-2-4" }),
    value: z.string().meta({ description: "The value of the breakdown", example: "red" }),
    players: z.int().meta({ description: "Players with a score under this value" }),
    total: z.number().meta({ description: "Their scores added up" }),
    average: z.number(),
    best: z.number(),
  })
  .meta({ id: "LeaderboardValue" });

/** Bytes of a ranked value in memory beside its text, about. */
const VALUE_BYTES = 200;

/** Bytes that a ranking takes in memory, about. */
const bytesOf = ({ values }: RankedValues): number =>
  values.reduce((bytes, { value }) => bytes + VALUE_BYTES + 2 * value.length, VALUE_BYTES);

type Asked = Omit<ValuesQuery, "ref"> & { fresh?: boolean | undefined };

/**
 * Returns the ranking that all pages of it are cut from, as of at most a second ago: reading it takes as long
 * as the window has entries, whichever page somebody wants.
 */
const rankedValues = (
  app: App,
  projectId: string,
  ref: string,
  { period, by, fresh }: Asked,
): Promise<Aged<RankedValues>> =>
  app.rankedValues.get(
    { projectId, owner: projectId, key: JSON.stringify([projectId, ref, period, by]) },
    {
      isFresh: fresh ?? false,
      make: async () => {
        const value = await app.transact((work) => readRankedValues(work, projectId, { ref, period, by }));
        return { value, bytes: bytesOf(value) };
      },
    },
  );

export const leaderboardValueRoutes = [
  readBoards.get("/leaderboards/{leaderboardId}/values", "listLeaderboardValues", {
    isQuestion: true,
    summary: "Rank the values of a leaderboard's breakdown, such as teams or countries",
    description:
      "By the scores of the players under each value, in one period. Players who are banned, deleted or " +
      "erased count in closed periods only.",
    query: z.object({
      ...pageOrAround,
      around: BoardValue.min(1).optional().meta({
        description: "Show the places around this value; 404 where it has no score",
        example: "red",
      }),
      period: PeriodKey.optional(),
      by: z.enum(VALUE_MEASURES).optional().meta({
        description: "Default total for leaderboards that add scores up, and best for others",
      }),
      fresh: Fresh,
    }),
    isRevalidated: true,
    headers: AGED,
    response: pageBody(ValueBody).extend({
      leaderboardKey: z.string(),
      by: z.enum(VALUE_MEASURES),
      period: WindowBody,
      isFull: z.boolean().meta({
        description: "Whether the period has as many values as it may have: scores under others do not count",
      }),
    }),
    outside: async (app, { projectId, params, query }) => {
      const { value, ageMs } = await rankedValues(app, projectId, params.leaderboardId, query);
      const { values, ...ranked } = value;
      const shown = pageOfValues(values, query);
      const answer = { ...ranked, ...pageOf(shown.values, values.length, shown) };
      return new Reply(200, answer as never, ageOf({ value, ageMs }));
    },
  }),
];
