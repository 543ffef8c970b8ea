import { z } from "zod";
import type { App } from "../../app.ts";
import { EXTERNAL_ID_MAX } from "../../domain/kernel/limits.ts";
import { showEntry } from "../../domain/economy/ledger/entries.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import {
  deletePlayer,
  type Include,
  INCLUDES,
  PlayerMetric,
  PlayerRank,
  readRanks,
  setStatus,
  SETTABLE_STATUSES,
  showIncluded,
} from "../../domain/player-lifecycle/includes.ts";
import { BALANCE_MAX, untouched } from "../../domain/evaluation/currencies/adjust.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import { whileWanted } from "../../domain/kernel/timeouts.ts";
import type { Work } from "../../domain/kernel/work.ts";
import {
  EXTERNAL_IDS_MAX,
  LISTED_STATUSES,
  listPlayers,
  PLAYER_SORTS,
  TAGS_ASKED_MAX,
} from "../../domain/players/player.ts";
import {
  getPlayer,
  grantPlayerXp,
  Identity,
  identifyPlayer,
  patchPlayer,
} from "../../domain/progression/players/players.ts";
import { meantBy } from "../../domain/tracking/events.ts";
import { projectPlans, readPlan } from "../../domain/progression/plan.ts";
import {
  readPlayer,
  showChanged,
  showPlayer,
  showPlayerOf,
  showPlayers,
  ShownPlayer,
} from "../../domain/progression/players/show.ts";
import { XP_MAX } from "../../domain/evaluation/xp/xp.ts";
import { Reply } from "../route.ts";
import { PropertyPath, textList } from "./analytics-fields.ts";
import { PlayerBadgeBody } from "../../domain/economy/badges/player-badges.ts";
import { PlayerBoost } from "./boosts.ts";
import { PlayerAdventureBody } from "./adventures.ts";
import { PlayerQuestBody } from "./quests.ts";
import { PlayerStreakBody } from "../../domain/economy/streaks/player-streaks.ts";
import { causeOf, Deleted, deleted, Order, pageReply, Search, Span } from "./bodies.ts";
import {
  ChangedPlayer,
  NewPlayer,
  PlayerPatch,
  playerWarnings,
  readsPlayers,
  Tag,
  writesPlayers,
  LedgerEntryBody,
} from "./player-bodies.ts";

/** Fields that `include` adds to a player. */
const IncludedBody = z.object({
  badges: z.array(PlayerBadgeBody).optional().meta({ description: "Held and in progress, 100 of each" }),
  streaks: z.array(PlayerStreakBody).optional(),
  segments: z.array(z.string()).optional(),
  boosts: z.array(PlayerBoost).optional(),
  quests: z.array(PlayerQuestBody).optional().meta({ description: "The first 100 of the player's list" }),
  adventures: z.array(PlayerAdventureBody).optional(),
  identities: z.array(Identity).optional(),
  metrics: z.array(PlayerMetric).optional().meta({ description: "The first 100, by id" }),
  ranks: z.array(PlayerRank).optional(),
});

const Level = z.coerce.number().int().min(1).optional();

/** A `provider:externalId` parameter. */
const IdentityRef = z
  .string()
  .max(320)
  // Without a flag, which the published document could not have.
  .regex(/^[^:]{1,64}:[\s\S]{1,255}$/, "must be provider:externalId")
  .optional()
  .meta({ description: "provider:externalId: the player who has this id at another provider" });

const identityOf = (ref: string | undefined) => {
  if (ref === undefined) return undefined;
  const colon = ref.indexOf(":");
  return { provider: ref.slice(0, colon), externalId: ref.slice(colon + 1) };
};

const Amount = z.coerce.number().int().min(0).max(BALANCE_MAX).optional();

type ByBalance = {
  currencyKey?: string | undefined;
  minBalance?: number | undefined;
  maxBalance?: number | undefined;
  sort: (typeof PLAYER_SORTS)[number];
};

/** @throws VALIDATION_ERROR for a currency that is needed and not named, or that the project does not have */
const currencyOf = async (work: Work, projectId: string, query: ByBalance) => {
  const { currencyKey: key, minBalance: min, maxBalance: max, sort } = query;
  if (key === undefined) {
    if (min === undefined && max === undefined && sort !== "balance") return undefined;
    throw invalid("currencyKey", "is required with minBalance, maxBalance and sort=balance");
  }
  const currency = (await readPlan(work, projectId, projectPlans)).currencies.get(key);
  if (!currency) throw invalid("currencyKey", "must be the key of a currency");
  return { key, untouched: untouched(currency).balance, min, max };
};

const Includes = z
  .string()
  .max(200)
  .optional()
  .transform((text): string[] => (text === undefined || text === "" ? [] : text.split(",")))
  .pipe(z.array(z.enum([...INCLUDES, "ranks"], { error: `must be of ${INCLUDES.join(", ")}, ranks` })))
  .meta({
    description: `A list of ${INCLUDES.join(", ")}, ranks, with commas`,
    override: { type: "string" },
  });

/**
 * Reads a player with one statement, if the definitions are in memory, and what is included in a transaction.
 */
const readWith = async (
  app: App,
  { projectId, ref }: { projectId: string; ref: string },
  parts: readonly Include[],
) => {
  const now = app.clock();
  const one = await readPlayer(app.read, { projectId, ref, now, lots: "DUE" });
  if (one) {
    const shown = showPlayerOf(one.plan, { ...one, nowMs: now.getTime() });
    if (parts.length === 0) return { player: one.player, shown };
    const included = await app.transact((work) =>
      showIncluded(work, one.player, { names: parts, plan: one.plan }),
    );
    return { player: one.player, shown: { ...shown, ...included } };
  }
  return app.transact(async (work) => {
    const player = await getPlayer(work, projectId, ref);
    const plan = await readPlan(work, projectId, projectPlans);
    const included = await showIncluded(work, player, { names: parts, plan });
    return { player, shown: { ...(await showPlayer(work, player)), ...included } };
  });
};

export const playerRoutes = [
  readsPlayers.get("/players", "listPlayers", {
    summary: "List players",
    description: "Without players who were deleted, merged into another, or erased.",
    query: PageQuery.extend({
      sort: z.enum(PLAYER_SORTS).default("createdAt"),
      order: Order,
      cursor: z.uuid().optional().meta({
        description: "pagination.nextCursor of the page before, in place of `page`: no player comes twice",
      }),
      externalUserId: z
        .union([
          z
            .string()
            .max(EXTERNAL_ID_MAX)
            .transform((one) => [one]),
          z.array(z.string().max(EXTERNAL_ID_MAX)).max(EXTERNAL_IDS_MAX),
        ])
        .optional()
        .meta({
          description: `May be given up to ${EXTERNAL_IDS_MAX} times`,
          override: { type: "array", items: { type: "string" } },
        }),
      status: z.enum(LISTED_STATUSES).optional(),
      search: Search.meta({ description: "Part of externalUserId or displayName" }),
      tag: textList({ max: TAGS_ASKED_MAX, of: Tag })
        .optional()
        .meta({
          description: `With all of these tags, at most ${TAGS_ASKED_MAX}: by comma, or given several times`,
        }),
      currencyKey: z.string().max(64).optional().meta({
        description: "The currency of minBalance, maxBalance and sort=balance, which need it",
      }),
      minBalance: Amount,
      maxBalance: Amount,
      attribute: PropertyPath.optional().meta({
        description: "Path of an attribute, such as device.os, that is `value`",
      }),
      value: z.string().max(500).optional().meta({
        description: "What `attribute` is: 5, true and null are also found as texts",
      }),
      segment: z.string().max(64).optional().meta({ description: "Key of a segment" }),
      identity: IdentityRef,
      level: Level,
      minLevel: Level,
      maxLevel: Level,
      from: Span.shape.from.meta({ description: "Created at this time or later" }),
      to: Span.shape.to.meta({ description: "Created before this time" }),
      lastSeenFrom: Span.shape.from.meta({ description: "lastSeenAt at this time or later" }),
      lastSeenTo: Span.shape.to.meta({ description: "lastSeenAt before this time" }),
    }),
    response: z.object({
      data: z.array(ShownPlayer),
      pagination: pageBody(ShownPlayer).shape.pagination.extend({
        nextCursor: z
          .uuid()
          .nullable()
          .meta({ description: "null at the end, and for other sorts than createdAt" }),
      }),
    }),
    outside: (
      app: App,
      { projectId, signal, query: { externalUserId: externalUserIds, identity, value, ...query } },
    ) =>
      app.transact(async (work) => {
        if ((query.attribute === undefined) !== (value === undefined))
          throw invalid(value === undefined ? "value" : "attribute", "attribute and value go together");
        const values = value === undefined ? undefined : meantBy(value);
        const currency = await currencyOf(work, projectId, query);
        const filter = { ...query, values, externalUserIds, identity: identityOf(identity), currency };
        // A filter without an index reads all players.
        const listed = whileWanted(signal, () => listPlayers(work, projectId, filter));
        const { players: found, nextCursor, ...total } = await listed;
        const players = await showPlayers(work, projectId, found);
        const { status, headers, body } = pageReply({ players, ...total }, "players", query);
        return new Reply(status, { ...body, pagination: { ...body.pagination, nextCursor } }, headers);
      }),
  }),
  writesPlayers.post("/players", "identifyPlayer", {
    namesIgnored: true,
    sharing: ({ body }) => ({ player: `ext:${body.externalUserId}`, isPlain: false }),
    summary: "Identify a player",
    description: "Makes the player (201), or changes the one with this externalUserId (200).",
    body: NewPlayer,
    example: {
      externalUserId: "user-1",
      displayName: "Ada",
      timezone: "Europe/Berlin",
      attributes: { city: "Berlin" },
      tags: ["beta"],
    },
    status: 201,
    otherStatus: 200,
    response: ChangedPlayer,
    run: async (work, { projectId, caller, ignored, body: { tags, ...profile } }) => {
      const given = { ...profile, ...(tags ? { addTags: tags } : {}) };
      const { player, created } = await identifyPlayer(work, projectId, given, causeOf(caller));
      const shown = await showChanged(work, player);
      return new Reply(created ? 201 : 200, { ...shown, ...playerWarnings(ignored, shown.status) });
    },
  }),
  readsPlayers.get("/players/{playerId}", "getPlayer", {
    summary: "Get a player",
    description: "Ids of before a merge or an alias find the player too.",
    query: z.object({ include: Includes }),
    response: ShownPlayer.extend(IncludedBody.shape).meta({ id: "PlayerWithIncludes" }),
    outside: async (app, { projectId, params, query: { include } }) => {
      const parts = include.filter((name): name is Include => name !== "ranks");
      const one = await readWith(app, { projectId, ref: params.playerId }, parts);
      if (!include.includes("ranks")) return one.shown;
      return { ...one.shown, ranks: await readRanks(app, one.player) };
    },
  }),
  writesPlayers.patch("/players/{playerId}", "updatePlayer", {
    namesIgnored: true,
    sharing: ({ params }) => ({ player: params.playerId, isPlain: false }),
    summary: "Change a player's profile",
    body: PlayerPatch,
    example: { displayName: "Ada L.", attributes: { city: null }, addTags: ["keen"] },
    response: ChangedPlayer,
    run: async (work, { projectId, params, body, ignored, caller }) => {
      const player = { projectId, id: params.playerId };
      const changed = await patchPlayer(work, player, body, causeOf(caller));
      return { ...(await showChanged(work, changed)), ...playerWarnings(ignored) };
    },
  }),
  writesPlayers.delete("/players/{playerId}", "deletePlayer", {
    summary: "Delete a player",
    description:
      "Suspends the player and hides them from lists and boards; giving them a status brings them " +
      "back. To remove what is known of a person, erase the player.",
    response: Deleted,
    run: async (work, { projectId, params, caller }) =>
      deleted(deletePlayer(work, await getPlayer(work, projectId, params.playerId), causeOf(caller))),
  }),
  writesPlayers.post("/players/{playerId}/status", "setPlayerStatus", {
    summary: "Give a player a status",
    description:
      "Events of a player who is SUSPENDED or BANNED are REJECTED. BANNED players are on no board and " +
      "may not connect; their scores come back with them.",
    body: z.object({
      status: z.enum(SETTABLE_STATUSES),
      reason: z.string().min(1).max(255).default("status changed"),
    }),
    example: { status: "SUSPENDED", reason: "Under investigation" },
    response: ShownPlayer,
    run: async (work, { projectId, params, body, caller }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      return showPlayer(work, await setStatus(work, player, { ...body, cause: causeOf(caller) }));
    },
  }),
  writesPlayers.post("/players/{playerId}/xp", "grantXp", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Grant XP to a player",
    description:
      "A negative amount takes XP away; more than the player has is 409. A reference serves a player " +
      "once. With `boostable`, boosts and the project's daily cap count; then `ledgerEntry` is null " +
      "where nothing is left.",
    body: z.object({
      amount: z
        .int()
        .min(-XP_MAX)
        .max(XP_MAX)
        .refine((amount) => amount !== 0, "must not be 0"),
      reason: z.string().min(1).max(255).default("grant"),
      boostable: z.boolean().default(false),
      reference: z.string().min(1).max(200).optional(),
    }),
    example: { amount: 50, reason: "Helped others", reference: "support-4711" },
    status: 201,
    response: z.object({ player: ShownPlayer, ledgerEntry: LedgerEntryBody.nullable() }),
    run: async (work, { projectId, params, body, caller }) => {
      const player = { projectId, id: params.playerId };
      const granted = await grantPlayerXp(work, player, { ...body, cause: causeOf(caller) });
      const { ledgerEntry } = granted;
      return {
        player: await showChanged(work, granted.player),
        ledgerEntry: ledgerEntry ? showEntry(ledgerEntry, work.now) : null,
      };
    },
  }),
];
