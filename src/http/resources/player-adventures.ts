import { z } from "zod";
import {
  claimPlayerAdventure,
  claimPlayerTier,
  givePlayerPremium,
  joinPlayerAdventure,
  listPlayerAdventures,
  readPlayerAdventure,
} from "../../domain/economy/adventures/change-adventures.ts";
import { ADVENTURES_MAX } from "../../domain/evaluation/adventures/adventure.ts";
import { ADVENTURE_STATES, TRACKS } from "../../domain/evaluation/adventures/row.ts";
import { ADMINS } from "../../domain/kernel/caller.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import { PATH_VALUES } from "../path-values.ts";

import { PlayerAdventureBody, readAdventures, writeAdventures } from "./adventure-bodies.ts";
import { firstOf } from "./list-bodies.ts";

const TierParams = z.object({
  playerId: PATH_VALUES.playerId,
  adventureId: PATH_VALUES.adventureId,
  tier: z
    .string()
    .regex(/^[1-9]\d{0,4}$/, "must be the number of a tier")
    .meta({ description: "The number of the tier", example: "1" }),
});

const write = writeAdventures.with({ response: PlayerAdventureBody });

export const playerAdventureRoutes = [
  readAdventures.get("/players/{playerId}/adventures", "listPlayerAdventures", {
    summary: "List a player's adventures",
    description:
      "Those that run or are to come, also where the player has not joined; and those that are over if the " +
      "player has taken part.",
    query: z.object({ state: z.enum(ADVENTURE_STATES).optional(), limit: firstOf(ADVENTURES_MAX) }),
    response: z.object({ data: z.array(PlayerAdventureBody) }),
    run: async (work, { projectId, params, query: { state, limit } }) => {
      const all = await listPlayerAdventures(work, await getPlayer(work, projectId, params.playerId));
      const asked = all.filter((one) => state === undefined || one.state === state);
      return { data: asked.slice(0, limit) };
    },
  }),
  readAdventures.get("/players/{playerId}/adventures/{adventureId}", "getPlayerAdventure", {
    summary: "Get a player's adventure",
    response: PlayerAdventureBody,
    run: async (work, { projectId, params }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      return readPlayerAdventure(work, player, params.adventureId);
    },
  }),
  write.post("/players/{playerId}/adventures/{adventureId}/join", "joinPlayerAdventure", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Make a player join an adventure",
    description:
      "409 ADVENTURE_NOT_AVAILABLE if it does not run, is LOCKED for the player, or was joined before.",
    run: async (work, { projectId, params: { playerId, adventureId } }) =>
      joinPlayerAdventure(work, { projectId, id: playerId }, adventureId),
  }),
  write.post("/players/{playerId}/adventures/{adventureId}/claim", "claimPlayerAdventure", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Claim the rewards of an adventure for a player",
    description:
      "Of one that is COMPLETED, once: 409 ALREADY_CLAIMED afterwards, CLAIM_EXPIRED after `claimUntil`.",
    run: async (work, { projectId, params: { playerId, adventureId } }) =>
      claimPlayerAdventure(work, { projectId, id: playerId }, adventureId),
  }),
  write.post("/players/{playerId}/adventures/{adventureId}/tiers/{tier}/claim", "claimPlayerAdventureTier", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Claim the rewards of a tier for a player",
    description:
      "On one track, once: 409 ALREADY_CLAIMED afterwards, PREMIUM_REQUIRED without premium, INVALID_STATE " +
      "while the tier is not reached, CLAIM_EXPIRED after `claimUntil`.",
    params: TierParams,
    body: z.strictObject({ track: z.enum(TRACKS).default("FREE") }).meta({ example: { track: "FREE" } }),
    run: async (
      work,
      { projectId, params: { playerId, adventureId: adventureRef, tier }, body: { track } },
    ) => claimPlayerTier(work, { projectId, id: playerId }, { adventureRef, tier: Number(tier), track }),
  }),
  write.post("/players/{playerId}/adventures/{adventureId}/premium", "givePlayerAdventurePremium", {
    access: { scope: "adventures:write", roles: ADMINS },
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Sell or grant a player premium of an adventure",
    description:
      "For `premiumPrice`, or without paying with `grant`. Tiers that are reached open. It is possible " +
      "before the start, and after the end as long as rewards can be claimed. 409: INSUFFICIENT_FUNDS, " +
      "NOT_FOR_SALE, ALREADY_PREMIUM, ADVENTURE_NOT_AVAILABLE.",
    body: z.strictObject({ grant: z.literal(true).optional() }).meta({ example: { grant: true } }),
    run: async (work, { projectId, params: { playerId, adventureId: adventureRef }, body: { grant } }) =>
      givePlayerPremium(work, { projectId, id: playerId }, { adventureRef, isGranted: grant === true }),
  }),
];
