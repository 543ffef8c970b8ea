import { z } from "zod";
import { LIVES_MAX, ShownLives, UNLIMITED_SECONDS_MAX } from "../../domain/evaluation/lives/lives.ts";
import { changeLives, readLives } from "../../domain/economy/lives/operations.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import {
  BoostFactor,
  BoostSeconds,
  BoostStacking,
  BoostTarget,
  BoostUses,
} from "../../domain/evaluation/boosts/campaign-boost.ts";
import { boostPlayer, listBoosts, removeBoost } from "../../domain/economy/boosts/kind.ts";
import { Boost } from "../../domain/kernel/events/shapes.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { PATH_VALUES } from "../route.ts";
import { causeOf, Deleted, deleted, ofPathPlayer, onPlayers } from "./bodies.ts";

const Amount = z.int().min(1).max(LIVES_MAX);
const Reason = z.string().min(1).max(255);
const Grant = z
  .object({
    amount: Amount.optional(),
    refill: z.literal("FULL").optional(),
    unlimitedSeconds: z.int().min(1).max(UNLIMITED_SECONDS_MAX).optional(),
    reason: Reason.default("grant"),
  })
  .refine(
    ({ amount, refill, unlimitedSeconds }) =>
      [amount, refill, unlimitedSeconds].filter((given) => given !== undefined).length === 1,
    { path: ["amount"], error: "give exactly one of amount, refill and unlimitedSeconds" },
  )
  .meta({ example: { amount: 1 } });

const lives = onPlayers("Lives");
const writeLives = lives.write.with({ response: ShownLives, sharing: ofPathPlayer });

export const PlayerBoost = Boost.extend({
  applies: Boost.shape.applies.meta({ description: "xp, currency:{key} or score:{key of a leaderboard}" }),
  scope: Boost.shape.scope.meta({
    description: "PLAYER: the player's own; else a campaign that is on for the player",
  }),
}).meta({ id: "PlayerBoost" });

const { read, write: writing } = onPlayers("Boosts");
const write = writing.with({ sharing: ofPathPlayer });

export const boostRoutes = [
  lives.read.get("/players/{playerId}/lives", "getLives", {
    summary: "Get a player's lives",
    description:
      "As they are now, refills included; null in a project without lives (`settings.lives.enabled`).",
    response: ShownLives.nullable(),
    run: async (work, { projectId, params }) =>
      readLives(work, await getPlayer(work, projectId, params.playerId)),
  }),
  writeLives.post("/players/{playerId}/lives/consume", "consumeLives", {
    summary: "Take lives from a player",
    description: "409 INSUFFICIENT_LIVES takes none. While lives are unlimited it succeeds and takes none.",
    body: z.object({ amount: Amount.default(1), reason: Reason.default("consume") }),
    example: { amount: 1, reason: "Lost a round" },
    run: async (work, { projectId, params, caller, body: { amount, reason } }) => {
      const player = { projectId, id: params.playerId };
      return changeLives(work, player, { amount: -amount, reason, cause: causeOf(caller) });
    },
  }),
  writeLives.post("/players/{playerId}/lives/grant", "grantLives", {
    summary: "Give a player lives",
    description:
      "`amount` stops at the maximum unless the project allows more; `refill` fills up to it; " +
      "`unlimitedSeconds` adds to the time that is left of unlimited lives.",
    body: Grant,
    run: (work, { projectId, params, caller, body }) =>
      changeLives(work, { projectId, id: params.playerId }, { ...body, cause: causeOf(caller) }),
  }),
  read.get("/players/{playerId}/boosts", "listPlayerBoosts", {
    summary: "List a player's boosts",
    description: "The player's own, and the campaigns that are on for the player.",
    response: z.object({ data: z.array(PlayerBoost) }),
    run: async (work, { projectId, params }) => ({
      data: await listBoosts(work, await getPlayer(work, projectId, params.playerId)),
    }),
  }),
  write.post("/players/{playerId}/boosts", "startPlayerBoost", {
    summary: "Start a boost of a player",
    description:
      "Multiplies the player's gains from rules from now on. Beside boosts of the same key on the same " +
      "thing, `stacking` decides: MAX lets the highest count, MULTIPLY all, EXTEND adds time to the one " +
      "that runs, REPLACE ends them.",
    body: z.object({
      boostKey: Key,
      applies: BoostTarget,
      factor: BoostFactor,
      durationSeconds: BoostSeconds,
      uses: BoostUses.optional().meta({ description: "Ends after so many gains" }),
      stacking: BoostStacking.default("MAX"),
    }),
    example: { boostKey: "happy-hour", applies: "xp", factor: 2, durationSeconds: 3600, stacking: "EXTEND" },
    status: 201,
    response: PlayerBoost,
    run: async (work, { projectId, params, body, caller }) => {
      const player = { projectId, id: params.playerId };
      return boostPlayer(work, player, { ...body, cause: causeOf(caller) });
    },
  }),
  write.delete("/players/{playerId}/boosts/{boostId}", "endPlayerBoost", {
    summary: "End a boost of a player",
    description: "The player's own; campaigns are archived, not ended for one player.",
    params: z.object({ playerId: PATH_VALUES.playerId, boostId: z.string().max(64) }),
    response: Deleted,
    run: (work, { projectId, params: { playerId, boostId } }) =>
      deleted(removeBoost(work, { projectId, id: playerId }, boostId)),
  }),
];
