import { z } from "zod";
import { ADMINS, DESIGNERS } from "../../domain/kernel/caller.ts";
import { LIST_STATUSES } from "../../domain/leaderboards/board-list.ts";
import {
  openListsOf,
  PERIOD_ORDERS,
  readPeriods,
  readResults,
  REBUILD_LISTS_MAX,
  resetLeaderboard,
} from "../../domain/leaderboards/periods/list.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/kernel/paging.ts";
import { PATH_VALUES } from "../path-values.ts";
import { Reply } from "../route.ts";
import { boards, BoardValue, readBoards } from "./leaderboards.ts";
import { paged, pageReply, Person } from "./bodies.ts";

const Key = z.string().min(1).max(64).meta({ example: "2026-W02" });
const BOARD = "The value of the breakdown; empty without one";

const RankedPlayerBody = Person.extend({
  avatarUrl: z.string().nullable(),
})
  .nullable()
  .meta({ description: "null for players who are banned, deleted or erased by now" });

const PeriodBody = z
  .object({
    id: z.uuid(),
    key: Key,
    board: z.string().meta({ description: BOARD }),
    status: z.enum(LIST_STATUSES),
    startsAt: z.iso.datetime().nullable().meta({ description: "null: as old as the leaderboard" }),
    endsAt: z.iso.datetime().nullable(),
    closedAt: z.iso.datetime().nullable(),
    participants: z.int(),
    leader: z.object({ player: RankedPlayerBody, score: z.number() }).nullable(),
  })
  .meta({ id: "LeaderboardPeriod" });

const PlaceBody = z
  .object({
    rank: z.int(),
    player: RankedPlayerBody,
    score: z.number(),
    reachedAt: z.iso.datetime(),
    prize: z
      .object({
        prize: z.int().meta({ description: "Which of the leaderboard's prizes, from 0" }),
        status: z.enum(["GRANTED", "WAITING", "CANCELLED", "FAILED"]).meta({
          description: "WAITING: to be claimed; CANCELLED: the player was suspended",
        }),
      })
      .nullable(),
  })
  .meta({ id: "LeaderboardResult" });

export const leaderboardPeriodRoutes = [
  readBoards.get("/leaderboards/{leaderboardId}/periods", "listLeaderboardPeriods", {
    summary: "List the periods of a leaderboard, newest first",
    description: "With a breakdown, one for each of its values.",
    ...paged(PeriodBody, PERIOD_ORDERS, {
      status: z.enum(LIST_STATUSES).optional(),
      board: BoardValue.optional().meta({ description: BOARD }),
    }),
    outside: async (app, { projectId, params, query }) =>
      pageReply(await readPeriods(app, projectId, { ...query, ref: params.leaderboardId }), "periods", query),
  }),
  readBoards.get("/leaderboards/{leaderboardId}/periods/{periodKey}/results", "listLeaderboardResults", {
    summary: "Read the final order of a closed period",
    description: "Before it is closed: 409 INVALID_STATE.",
    params: z.object({ leaderboardId: PATH_VALUES.leaderboardId, periodKey: Key }),
    query: PageQuery.extend({ board: BoardValue.default("").meta({ description: BOARD }) }),
    response: pageBody(PlaceBody).extend({ leaderboardKey: z.string(), period: PeriodBody }),
    run: async (work, { projectId, params, query }) => {
      const { leaderboardId: ref, periodKey } = params;
      const { places, ...rest } = await readResults(work, projectId, { ...query, ref, periodKey });
      return { ...rest, ...pageOf(places, rest.period.participants, query) };
    },
  }),
  boards.post("/leaderboards/{leaderboardId}/reset", "resetLeaderboard", {
    access: { scope: "leaderboards:write", roles: DESIGNERS },
    summary: "End the current period now and begin anew",
    description:
      "Open periods close with their final order within seconds. Earlier scores are late from now on. " +
      "Not for ALL_TIME leaderboards of XP: 409 SHOWS_TOTALS.",
    body: z.strictObject({
      awardPrizes: z
        .boolean()
        .default(false)
        .meta({ description: "Whether the closing lists award their prizes" }),
      reason: z.string().min(1).max(255).optional().meta({ description: "For the audit log" }),
    }),
    example: { awardPrizes: true, reason: "A new season" },
    response: z.object({
      resets: z.int().meta({ description: "How often it was reset, with this time" }),
      resetAt: z.iso.datetime(),
      closing: z.int().meta({ description: "Periods that close by it, one for each value of the breakdown" }),
    }),
    run: async (work, { projectId, params, body }) => {
      const options = { ...body, ref: params.leaderboardId };
      const { leaderboard, closing } = await resetLeaderboard(work, projectId, options);
      return { resets: leaderboard.resets, resetAt: leaderboard.resetAt!.toISOString(), closing };
    },
  }),
  boards.post("/leaderboards/{leaderboardId}/rebuild", "rebuildLeaderboard", {
    access: { roles: ADMINS },
    summary: "Read the rankings of a leaderboard from the database again",
    description: `Its periods that are not closed, ${REBUILD_LISTS_MAX} at most. Reads go on meanwhile.`,
    response: z.object({ rebuilt: z.int().meta({ description: "Rankings that were read again" }) }),
    outside: async (app, { projectId, params }) => {
      const lists = await app.transact((work) => openListsOf(work, projectId, params.leaderboardId));
      const body = { rebuilt: lists.length };
      return new Reply(200, body, {}, async (own) => {
        for (const list of lists) await own.ranks.rebuild(list);
        return body;
      });
    },
  }),
];
