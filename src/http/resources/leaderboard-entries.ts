import { z } from "zod";
import type { App } from "../../app.ts";
import { planBoardExport, writeBoard } from "../../domain/analytics/exports/board-export.ts";
import { BUILDERS } from "../../domain/kernel/caller.ts";
import { EntryBody, readEntries, readEntry, ViewBody } from "../../domain/leaderboards/entries.ts";
import { FEED_MAX, FeedLine, readFeed } from "../../domain/leaderboards/notices/send.ts";
import { SCOPE_EXAMINED_MAX } from "../../domain/leaderboards/board-list.ts";
import { PATH_VALUES, Reply } from "../route.ts";
import { fileFieldsOf, FileQuery, streamedFile, streaming } from "./analytics-exports.ts";
import { AGED, ageOf, Fresh, keptReply } from "./bodies.ts";
import { BoardValue, pageOrAround, PeriodKey, PLAYER_REF, PlayerRef, readBoards } from "./leaderboards.ts";
import { pageBody, pageOf } from "../../domain/kernel/paging.ts";
import type { Aged } from "../../domain/kernel/caches.ts";
import {
  pageOfValues,
  RankedBody,
  type RankedValues,
  readRankedValues,
  VALUE_MEASURES,
  ValueBody,
  type ValuesQuery,
} from "../../domain/leaderboards/value-ranks.ts";

const ListQuery = z.object({
  period: PeriodKey.optional(),
  board: BoardValue.optional().meta({ description: "The value, of a leaderboard with a breakdown" }),
});

const EntriesQuery = ListQuery.extend({
  ...pageOrAround,
  cursor: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .meta({ description: "pagination.nextCursor of the page before: goes on after its last line" }),
  asOf: z
    .string()
    .min(1)
    .max(64)
    .optional()
    .meta({ description: "now, then the asOf of the first page: pages of one moment, kept for a minute" }),
  scope: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .meta({ description: `segment:{key}: players of a segment, of the first ${SCOPE_EXAMINED_MAX} places` }),
  around: PlayerRef.optional().meta({ description: `Show the places around this player. ${PLAYER_REF}` }),
  fresh: Fresh,
  playerId: PlayerRef.optional().meta({
    description: `Show this player's own line as \`me\`. ${PLAYER_REF}`,
  }),
});

type Query = z.output<typeof EntriesQuery>;
type Read = (app: App, projectId: string, leaderboardId: string, query: Query) => Promise<Reply<never>>;

/** Whether many ask for the same page: one of the current list, and of nobody in particular. */
const isKept = ({ asOf, scope, around, playerId }: Query): boolean =>
  [asOf, scope, around, playerId].every((value) => value === undefined);

const newPage: Read = async (app, projectId, leaderboardId, query) => {
  const view = await readEntries(app, projectId, leaderboardId, query);
  const isEstimated = view.value.pagination.isEstimated ? { "X-Total-Estimated": "true" } : {};
  return new Reply(200, view.value as never, { ...ageOf(view), ...isEstimated });
};

const keptPage: Read = (app, projectId, leaderboardId, asked) => {
  const { period, board, page, limit, cursor, fresh } = asked;
  return keptReply(app, {
    projectId,
    key: ["entries", leaderboardId, period, board, page, limit, cursor],
    isFresh: fresh ?? false,
    // Of nothing that is old already: the page grows as old again.
    read: async () => (await readEntries(app, projectId, leaderboardId, { ...asked, fresh: true })).value,
  });
};

export const leaderboardEntryRoutes = [
  readBoards.get("/leaderboards/{leaderboardId}/entries", "listLeaderboardEntries", {
    hasSmallRows: true,
    summary: "Read a leaderboard: a page, or the places around a player",
    query: EntriesQuery,
    errors: ["GONE"],
    isRevalidated: true,
    headers: AGED,
    response: ViewBody,
    outside: (app, { projectId, params, query }) =>
      isKept(query)
        ? keptPage(app, projectId, params.leaderboardId, query)
        : newPage(app, projectId, params.leaderboardId, query),
  }),
  readBoards.get("/leaderboards/{leaderboardId}/export", "exportLeaderboard", {
    ...streaming,
    access: { ...readBoards.common.access, roles: BUILDERS, needs: { approval: true } },
    summary: "Download a whole leaderboard as a file",
    description:
      "All lines that are shown, in their order and of one moment. A complete file ends with the trailer " +
      "X-Export-Rows, and the connection breaks where it cannot be completed.",
    query: ListQuery.extend(FileQuery.shape),
    outside: async (app, { projectId, params, query, caller, signal }) => {
      const fields = fileFieldsOf(query);
      const name = { projectId, ref: params.leaderboardId };
      const plan = await app.transact((work) => planBoardExport(work, name, { fields, list: query }));
      const file = { format: fields.format, fileName: plan.fileName };
      return streamedFile(app, { projectId, caller, signal, file }, (parts, to) =>
        writeBoard(parts, plan, to),
      );
    },
  }),
  readBoards.get("/leaderboards/{leaderboardId}/players/{playerId}", "getLeaderboardEntry", {
    summary: "Get a player's place",
    params: z.object({ leaderboardId: PATH_VALUES.leaderboardId, playerId: PlayerRef }),
    query: ListQuery.extend({ fresh: Fresh }),
    headers: AGED,
    response: EntryBody,
    outside: async (app, { projectId, params, query }) => {
      const asked = { ...query, playerId: params.playerId };
      const entry = await readEntry(app, projectId, params.leaderboardId, asked);
      return new Reply(200, entry.value, ageOf(entry));
    },
  }),
  readBoards.get("/leaderboards/{leaderboardId}/feed", "listLeaderboardFeed", {
    summary: `The last ${FEED_MAX} rank events of a leaderboard, newest first`,
    description: "Of players who are shown. `data` is that of the event of this type.",
    response: z.object({ data: z.array(FeedLine) }),
    run: async (work, { projectId, params }) => ({
      data: await readFeed(work, projectId, params.leaderboardId),
    }),
  }),
];

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
    response: pageBody(ValueBody).extend(RankedBody.shape),
    outside: async (app, { projectId, params, query }) => {
      const { value, ageMs } = await rankedValues(app, projectId, params.leaderboardId, query);
      const { values, ...ranked } = value;
      const shown = pageOfValues(values, query);
      const answer = { ...ranked, ...pageOf(shown.values, values.length, shown) };
      return new Reply(200, answer as never, ageOf({ value, ageMs }));
    },
  }),
];
