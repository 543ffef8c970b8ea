import { z } from "zod";
import type { App } from "../../app.ts";
import { ADMINS, DESIGNERS, EVERY_ROLE } from "../../domain/access.ts";
import { invalid } from "../../domain/errors.ts";
import { Definition, LeaderboardDefinition, LeaderboardPatch } from "../../domain/leaderboards/definition.ts";
import {
  ALL_TIME_KEY,
  AROUND_LIMIT_DEFAULT,
  readEntries,
  readEntry,
} from "../../domain/leaderboards/entries.ts";
import { showLeaderboard } from "../../domain/leaderboards/leaderboard.ts";
import {
  archiveLeaderboard,
  createLeaderboard,
  getLeaderboard,
  listLeaderboards,
  patchLeaderboard,
  pauseLeaderboard,
  resumeLeaderboard,
} from "../../domain/leaderboards/leaderboards.ts";
import { prepareScore, submitPlayerScore } from "../../domain/leaderboards/scores.ts";
import { PAGE_DEPTH_MAX, PAGE_LIMIT_MAX, pageBody, pageOf, PageQuery } from "../../domain/paging.ts";
import { Reply, route } from "../route.ts";
import { Deleted } from "./plain-bodies.ts";

const Status = z.enum(["ACTIVE", "PAUSED", "ARCHIVED"]);

const LeaderboardBody = Definition.omit({ description: true, displayLimit: true })
  .extend({
    id: z.uuid(),
    key: z.string(),
    name: z.string(),
    description: z.string().nullable(),
    status: Status,
    displayLimit: z.int().nullable(),
    version: z.int(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Leaderboard" });

const EntryBody = z
  .object({
    rank: z.int(),
    playerId: z.uuid(),
    externalUserId: z.string(),
    displayName: z.string().nullable(),
    avatarUrl: z.string().nullable(),
    score: z.number(),
    reachedAt: z.iso.datetime().meta({ description: "When this score was reached" }),
    previousRank: z.int().nullable(),
    isMe: z.boolean().optional().meta({ description: "true on the line of the query's playerId" }),
  })
  .meta({ id: "LeaderboardEntry" });

const ViewBody = z
  .object({
    leaderboardKey: z.string(),
    period: z.object({
      key: z.string(),
      startsAt: z.iso.datetime(),
      endsAt: z.iso.datetime().nullable(),
      status: z.enum(["OPEN"]),
    }),
    board: z.string(),
    data: z.array(EntryBody),
    me: EntryBody.nullable(),
    pagination: z.object({ page: z.int(), limit: z.int(), total: z.int(), totalPages: z.int() }),
  })
  .meta({ id: "LeaderboardView" });

const PLAYER_REF = "The player's UUID, or ext: and the externalUserId";
const PlayerRef = z.string().min(1).max(300).meta({ description: PLAYER_REF });
const Params = z.object({
  leaderboardId: z.string().min(1).max(64).meta({ description: "The leaderboard's UUID or key" }),
});
const EntriesQuery = z.object({
  page: z.coerce.number().int().min(1).max(PAGE_DEPTH_MAX).default(1),
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(PAGE_LIMIT_MAX)
    .optional()
    .meta({ description: `Default 20, and ${AROUND_LIMIT_DEFAULT} with around` }),
  around: PlayerRef.optional().meta({ description: `Show the places around this player. ${PLAYER_REF}` }),
  playerId: PlayerRef.optional().meta({
    description: `Show this player's own line as \`me\`. ${PLAYER_REF}`,
  }),
  period: z.literal(ALL_TIME_KEY, { error: `only ${ALL_TIME_KEY} is supported` }).optional(),
});

const common = { tag: "Leaderboards", project: "caller" } as const;
const read = { ...common, access: { scope: "leaderboards:read", roles: EVERY_ROLE } } as const;
const manage = { ...common, access: { scope: "leaderboards:manage", roles: DESIGNERS } } as const;

/** Frees the rank index of a period that is over. It is only memory: a failure is logged and nothing else. */
const dropIndex = async (app: App, projectId: string, periodId: string): Promise<void> => {
  try {
    await app.ranks.drop(projectId, periodId);
  } catch (err) {
    app.log.warn({ err, projectId, periodId }, "the rank index of a closed period stays");
  }
};

const definitionRoutes = [
  route({
    ...manage,
    method: "post",
    path: "/leaderboards",
    id: "createLeaderboard",
    summary: "Create a leaderboard",
    description:
      "Active at once. An XP board starts with all players' XP; an EVENT board empty or, with backfill, " +
      "with the events processed so far.",
    body: LeaderboardDefinition,
    status: 201,
    response: LeaderboardBody,
    run: (app, { projectId, body }) =>
      app.transact(async (work) => showLeaderboard(await createLeaderboard(work, projectId, body))),
  }),
  route({
    ...read,
    method: "get",
    path: "/leaderboards",
    id: "listLeaderboards",
    summary: "List leaderboards, newest first",
    query: PageQuery.extend({ status: Status.optional().meta({ description: "Default: all but ARCHIVED" }) }),
    response: pageBody(LeaderboardBody),
    run: (app, { projectId, query }) =>
      app.transact(async (work) => {
        const { leaderboards, total } = await listLeaderboards(work, projectId, query);
        return pageOf(leaderboards.map(showLeaderboard), total, query);
      }),
  }),
  route({
    ...read,
    method: "get",
    path: "/leaderboards/{leaderboardId}",
    id: "getLeaderboard",
    summary: "Get a leaderboard",
    params: Params,
    response: LeaderboardBody,
    run: (app, { projectId, params }) =>
      app.transact(async (work) =>
        showLeaderboard(await getLeaderboard(work, projectId, params.leaderboardId)),
      ),
  }),
  route({
    ...manage,
    method: "patch",
    path: "/leaderboards/{leaderboardId}",
    id: "updateLeaderboard",
    summary: "Change a leaderboard",
    description: "What its scores mean (metric, operator, sort, decimals) stays; null clears a field.",
    params: Params,
    body: LeaderboardPatch,
    response: LeaderboardBody,
    run: (app, { projectId, params, body }) =>
      app.transact(async (work) =>
        showLeaderboard(await patchLeaderboard(work, projectId, params.leaderboardId, body)),
      ),
  }),
  route({
    ...manage,
    method: "delete",
    path: "/leaderboards/{leaderboardId}",
    id: "archiveLeaderboard",
    summary: "Archive a leaderboard",
    description:
      "For good: it takes no more scores and leaves the list. Its key stays taken, its entries readable.",
    params: Params,
    response: Deleted,
    run: async (app, { projectId, params }) => {
      await app.transact((work) => archiveLeaderboard(work, projectId, params.leaderboardId));
      return { deleted: true as const };
    },
  }),
  route({
    ...manage,
    method: "post",
    path: "/leaderboards/{leaderboardId}/pause",
    id: "pauseLeaderboard",
    summary: "Pause a leaderboard",
    description: "It takes no scores; its entries stay readable.",
    params: Params,
    response: LeaderboardBody,
    run: (app, { projectId, params }) =>
      app.transact(async (work) =>
        showLeaderboard(await pauseLeaderboard(work, projectId, params.leaderboardId)),
      ),
  }),
  route({
    ...manage,
    method: "post",
    path: "/leaderboards/{leaderboardId}/resume",
    id: "resumeLeaderboard",
    summary: "Resume a leaderboard",
    description:
      "It takes scores again. An XP board catches up; events and scores of the pause are not counted.",
    params: Params,
    response: LeaderboardBody,
    run: async (app, { projectId, params }) => {
      const resume = app.transact((work) => resumeLeaderboard(work, projectId, params.leaderboardId));
      const { leaderboard, closedPeriodId } = await resume;
      const body = showLeaderboard(leaderboard);
      if (closedPeriodId === undefined) return body;
      return new Reply(200, body, {}, async () => {
        await dropIndex(app, projectId, closedPeriodId);
        return body;
      });
    },
  }),
];

const entryRoutes = [
  route({
    ...read,
    method: "get",
    path: "/leaderboards/{leaderboardId}/entries",
    id: "listLeaderboardEntries",
    summary: "Read a leaderboard: a page, or the places around a player",
    params: Params,
    query: EntriesQuery,
    response: ViewBody,
    run: (app, { projectId, params, query }) => {
      if (query.around !== undefined && query.page > 1) throw invalid("page", "does not go with around");
      return readEntries(app, projectId, params.leaderboardId, query);
    },
  }),
  route({
    ...read,
    method: "get",
    path: "/leaderboards/{leaderboardId}/players/{playerId}",
    id: "getLeaderboardEntry",
    summary: "Get a player's place",
    params: Params.extend({ playerId: PlayerRef }),
    response: EntryBody,
    run: (app, { projectId, params }) => readEntry(app, projectId, params.leaderboardId, params.playerId),
  }),
  route({
    ...common,
    access: { scope: "leaderboards:write", roles: ADMINS },
    method: "post",
    path: "/leaderboards/{leaderboardId}/scores",
    id: "submitScore",
    summary: "Submit a score",
    description:
      "For CUSTOM leaderboards. accepted is false when a newer score stands; nothing changes then.",
    params: Params,
    body: z.object({
      playerId: PlayerRef,
      score: z.number(),
      occurredAt: z.iso
        .datetime({ offset: true })
        .optional()
        .meta({ description: "Default now; up to 24 hours ahead counts as now" }),
    }),
    response: z.object({
      accepted: z.boolean(),
      improved: z.boolean(),
      score: z.number().nullable().meta({ description: "The player's score now" }),
      rank: z
        .int()
        .nullable()
        .meta({ description: "null when the player has none, or rankings did not answer" }),
      previousRank: z.int().nullable().meta({ description: "As rank, before the score" }),
    }),
    prepare: (app, { projectId, params, body: { occurredAt, ...submission } }) =>
      prepareScore(app, projectId, params.leaderboardId, {
        ...submission,
        occurredAt: occurredAt === undefined ? undefined : new Date(occurredAt),
      }),
    run: async (app, { prepared }) => {
      const { result, finish } = await submitPlayerScore(app, prepared);
      return new Reply(200, result, {}, finish);
    },
  }),
];

export const leaderboardRoutes = [...definitionRoutes, ...entryRoutes];
