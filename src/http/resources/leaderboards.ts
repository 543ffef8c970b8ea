import { z } from "zod";
import { BREAKDOWN_VALUE_MAX } from "../../domain/evaluation/boards/lists.ts";
import { AROUND_LIMIT_DEFAULT, LIST_STATUSES } from "../../domain/leaderboards/board-list.ts";
import type { App } from "../../app.ts";
import { ADMINS, DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import {
  Definition,
  LeaderboardPatch,
  NewLeaderboard,
  SCORE_META_MAX_BYTES,
} from "../../domain/evaluation/boards/definition.ts";
import { showLeaderboard } from "../../domain/progression/load-plan.ts";
import {
  archiveLeaderboard,
  createLeaderboard,
  getLeaderboard,
  LEADERBOARD_ORDERS,
  listLeaderboards,
  patchLeaderboard,
  pauseLeaderboard,
  resumeLeaderboard,
} from "../../domain/leaderboards/leaderboards.ts";
import { PAGE_LIMIT_DEFAULT, pageBody, pageOf, PageQuery } from "../../domain/kernel/paging.ts";
import { group, PATH_VALUES, Reply } from "../route.ts";
import { deleted, Deleted, paged, pageReply, Search } from "./bodies.ts";
import {
  BOARD,
  WindowKey,
  openListsOf,
  PeriodBody,
  PlaceBody,
  PERIOD_ORDERS,
  readPeriods,
  readResults,
  REBUILD_LISTS_MAX,
  resetLeaderboard,
} from "../../domain/leaderboards/periods/list.ts";

/** A value of a breakdown. */
export const BoardValue = z.string().max(BREAKDOWN_VALUE_MAX);

export const PeriodKey = z
  .string()
  .min(1)
  .max(64)
  .meta({ description: "Key of a period; default the current one", example: "2026-W02" });

/** What a part of a leaderboard is asked for by: a page, or the places around something. */
export const pageOrAround = {
  page: PageQuery.shape.page,
  limit: PageQuery.shape.limit
    .unwrap()
    .optional()
    .meta({ description: `Default ${PAGE_LIMIT_DEFAULT}, and ${AROUND_LIMIT_DEFAULT} with around` }),
};

export const PLAYER_REF = "The player's UUID, or ext: and the externalUserId";
export const PlayerRef = z.string().min(1).max(300).meta({ description: PLAYER_REF });

const Status = z.enum(["ACTIVE", "PAUSED", "ARCHIVED"]);

const { shape } = Definition;
const LeaderboardBody = Definition.extend({
  audience: shape.audience.unwrap().nullable(),
  breakdownAttribute: shape.breakdownAttribute.unwrap().nullable(),
  breakdownProperty: shape.breakdownProperty.unwrap().nullable(),
  minScoreToEnter: shape.minScoreToEnter.unwrap().nullable(),
  entryCost: shape.entryCost.unwrap().nullable(),
  maxSubmissionsPerPeriod: shape.maxSubmissionsPerPeriod.unwrap().nullable(),
  bounds: shape.bounds.unwrap().nullable(),
  rankChange: shape.rankChange.unwrap(),
  prizes: shape.prizes.unwrap(),
  resets: z.int().meta({ description: "How often it was reset" }),

  id: z.uuid(),
  key: z.string(),
  name: z.string(),
  description: z.string().nullable(),
  status: Status,
  displayLimit: z.int().nullable(),
  version: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "Leaderboard" });

export const boards = group({ tag: "Leaderboards", project: "caller" });
export const readBoards = boards.with({ access: { scope: "leaderboards:read", roles: EVERY_ROLE } });
const manage = boards.with({
  access: { scope: "leaderboards:manage", roles: DESIGNERS },
  response: LeaderboardBody,
});

/** Frees rank indexes, which only use memory: one that stays is simply never read again. */
export const dropIndexes = async (
  app: App,
  projectId: string,
  periodIds: readonly string[],
): Promise<void> => {
  try {
    for (const periodId of periodIds) await app.ranks.drop(projectId, periodId);
  } catch (err) {
    app.log.warn({ err, projectId }, "rank indexes of closed periods stay");
  }
};

/** A score as callers submit it. */
export const SubmittedScore = z
  .strictObject({
    playerId: PlayerRef,
    score: z.number(),
    meta: z
      .record(z.string(), z.unknown())
      .optional()
      .meta({ description: `Shown with the score while it stands; at most ${SCORE_META_MAX_BYTES} bytes` }),
    occurredAt: z.iso
      .datetime({ offset: true })
      .optional()
      .meta({ description: "Default now; up to 24 hours ahead counts as now" }),
  })
  .meta({ id: "NewScore" });

export const leaderboardRoutes = [
  manage.post("/leaderboards", "createLeaderboard", {
    summary: "Create a leaderboard",
    description:
      "Active at once. A board of XP in total starts with all players' XP; an EVENT board empty or, with " +
      "backfill, with the events processed so far; others empty.",
    body: NewLeaderboard,
    example: {
      key: "weekly-xp",
      name: "XP of the week",
      metric: { source: "XP" },
      period: { kind: "WEEKLY", timezone: "Europe/Berlin" },
    },
    status: 201,
    run: async (work, { projectId, body }) => showLeaderboard(await createLeaderboard(work, projectId, body)),
  }),
  readBoards.get("/leaderboards", "listLeaderboards", {
    isRevalidated: true,
    summary: "List leaderboards, newest first",
    ...paged(LeaderboardBody, LEADERBOARD_ORDERS, {
      status: Status.optional().meta({ description: "Default: all but ARCHIVED" }),
      search: Search.meta({ description: "Part of the name or key, in any case" }),
    }),
    run: async (work, { projectId, query }) =>
      pageReply(await listLeaderboards(work, projectId, query), "leaderboards", query, showLeaderboard),
  }),
  readBoards.get("/leaderboards/{leaderboardId}", "getLeaderboard", {
    isRevalidated: true,
    summary: "Get a leaderboard",
    response: LeaderboardBody,
    run: async (work, { projectId, params }) =>
      showLeaderboard(await getLeaderboard(work, projectId, params.leaderboardId)),
  }),
  manage.patch("/leaderboards/{leaderboardId}", "updateLeaderboard", {
    summary: "Change a leaderboard",
    description:
      "The meaning of its scores (metric, operator, sort, decimals, windows, groups) stays; " +
      "null clears a field.",
    body: LeaderboardPatch,
    example: { name: "XP of this week", displayLimit: 50, version: 1 },
    run: async (work, { projectId, params, body }) =>
      showLeaderboard(await patchLeaderboard(work, projectId, params.leaderboardId, body)),
  }),
  manage.delete("/leaderboards/{leaderboardId}", "archiveLeaderboard", {
    summary: "Archive a leaderboard",
    description:
      "For good: it takes no more scores and leaves the list. Its key stays taken, its entries readable.",
    response: Deleted,
    run: (work, { projectId, params }) => deleted(archiveLeaderboard(work, projectId, params.leaderboardId)),
  }),
  manage.post("/leaderboards/{leaderboardId}/pause", "pauseLeaderboard", {
    summary: "Pause a leaderboard",
    description: "It takes no scores; its entries stay readable.",
    run: async (work, { projectId, params }) =>
      showLeaderboard(await pauseLeaderboard(work, projectId, params.leaderboardId)),
  }),
  manage.post("/leaderboards/{leaderboardId}/resume", "resumeLeaderboard", {
    summary: "Resume a leaderboard",
    description:
      "It takes scores again. An XP board catches up; events and scores of the pause are not counted.",
    outside: async (app, { projectId, params }) => {
      const resume = app.transact((work) => resumeLeaderboard(work, projectId, params.leaderboardId));
      const { leaderboard, closedPeriodId } = await resume;
      const body = showLeaderboard(leaderboard);
      if (closedPeriodId === undefined) return body;
      return new Reply(200, body, {}, async () => {
        await dropIndexes(app, projectId, [closedPeriodId]);
        return body;
      });
    },
  }),
];

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
    params: z.object({ leaderboardId: PATH_VALUES.leaderboardId, periodKey: WindowKey }),
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
