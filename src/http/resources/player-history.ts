import { z } from "zod";
import { ADMINS } from "../../domain/kernel/caller.ts";
import { listEntries, Verdict, verifyLedger } from "../../domain/economy/ledger/entries.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { ACTIVITY_TYPES_MAX, listActivity } from "../../domain/players/player.ts";
import {
  PointInTimeState,
  readRecap,
  readStateAt,
  Recap,
  RECAP_DAYS_MAX,
} from "../../domain/player-lifecycle/history.ts";
import { listMetrics, PlayerMetric } from "../../domain/player-lifecycle/includes.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { findRuleId } from "../../domain/rules/rules.ts";
import {
  AfterNumber,
  ByCause,
  cursorBody,
  DayOrMoment,
  Moment,
  onPlayers,
  pageReply,
  Span,
} from "./bodies.ts";
import { readsPlayers, LedgerEntryBody, Asset } from "./player-bodies.ts";
const { read } = onPlayers("Ledger");

export const ledgerRoutes = [
  read.get("/players/{playerId}/ledger", "listLedger", {
    summary: "List a player's ledger, newest first",
    description:
      "Every change of XP, currencies and lives. Entries are never changed: a mistake is corrected by " +
      "another entry.",
    query: Span.extend({
      ...AfterNumber.shape,
      ...ByCause.shape,
      asset: Asset.optional(),
      currencyKey: Key.optional(),
    }),
    response: cursorBody(LedgerEntryBody),
    run: async (work, { projectId, params, query }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      const ruleId = await findRuleId(work, projectId, query.ruleId);
      const { entries, nextCursor } = await listEntries(work, player, { ...query, ruleId });
      return { data: entries, pagination: { limit: query.limit, nextCursor } };
    },
  }),
  read.get("/players/{playerId}/ledger/verify", "verifyLedger", {
    access: { scope: "players:read", roles: ADMINS },
    summary: "Verify a player's ledger",
    description:
      "Works out every hash and balance anew. `firstInvalidSeq` is the first entry that was tampered with " +
      "or is missing.",
    response: Verdict,
    outside: async (app, { projectId, params }) => {
      const player = await app.transact((work) => getPlayer(work, projectId, params.playerId));
      return verifyLedger(app.transact, player, app.limits.pause);
    },
  }),
];

const ActivityBody = z
  .object({
    id: z.uuid(),
    seq: z.int(),
    type: z.string(),
    data: z.record(z.string(), z.unknown()),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "Activity" });

const Types = z
  .string()
  .max(1_000)
  .optional()
  .transform((text) => (text === undefined || text === "" ? undefined : text.split(",")))
  .refine(
    (types) => (types?.length ?? 0) <= ACTIVITY_TYPES_MAX,
    `must be at most ${ACTIVITY_TYPES_MAX} types`,
  )
  .meta({ description: "Types, with commas, such as player.level_up", override: { type: "string" } });

export const playerHistoryRoutes = [
  readsPlayers.get("/players/{playerId}/metrics", "listPlayerMetrics", {
    summary: "List a player's metrics",
    description:
      "The counters that running rules, badges and segments read, as they are now, by id. A metric counts " +
      "from the definition on that reads it.",
    query: PageQuery,
    response: pageBody(PlayerMetric),
    run: async (work, { projectId, params, query }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      return pageReply(await listMetrics(work, player, query), "metrics", query);
    },
  }),
  readsPlayers.get("/players/{playerId}/state", "getPlayerState", {
    summary: "Get a player's state at a moment",
    description: "The state recorded by then; `caveats` list what is uncertain.",
    query: z.object({ at: Moment }),
    response: PointInTimeState,
    run: async (work, { projectId, params, query }) =>
      readStateAt(work, await getPlayer(work, projectId, params.playerId), query.at),
  }),
  readsPlayers.get("/players/{playerId}/activity", "listPlayerActivity", {
    summary: "List what happened to a player, newest first",
    query: Span.extend({ ...AfterNumber.shape, ...ByCause.shape, types: Types }),
    response: cursorBody(ActivityBody),
    run: async (work, { projectId, params, query }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      const ruleId = await findRuleId(work, projectId, query.ruleId);
      const { activity, nextCursor } = await listActivity(work, player, { ...query, ruleId });
      return { data: activity, pagination: { limit: query.limit, nextCursor } };
    },
  }),
  readsPlayers.get("/players/{playerId}/recap", "getPlayerRecap", {
    summary: "Sum up a player's time",
    description:
      `The player's gains from \`from\` until before \`to\`, at most ${RECAP_DAYS_MAX} days, as ` +
      "it was recorded. A date is the beginning of that day in the time zone of the answer.",
    query: z.object({ from: DayOrMoment, to: DayOrMoment }),
    response: Recap,
    run: async (work, { projectId, params, query }) =>
      readRecap(work, await getPlayer(work, projectId, params.playerId), query),
  }),
];
