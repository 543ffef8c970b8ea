import { z } from "zod";
import { ADMINS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import {
  BoostFactor,
  BoostSeconds,
  BoostStacking,
  BoostTarget,
  BoostUses,
} from "../../domain/evaluation/boosts/campaign-boost.ts";
import { boostPlayer, listBoosts, removeBoost } from "../../domain/economy/boosts/operations.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { PATH_VALUES } from "../path-values.ts";
import { group } from "../route.ts";
import { causeOf } from "./player-params.ts";
import { Deleted, deleted } from "./plain-bodies.ts";

export const PlayerBoost = z
  .object({
    id: z.uuid(),
    boostKey: z.string(),
    applies: z.string().meta({ description: "xp, currency:{key} or score:{key of a leaderboard}" }),
    factor: z.number(),
    startsAt: z.iso.datetime(),
    expiresAt: z.iso.datetime(),
    usesLeft: z.int().nullable(),
    scope: z
      .enum(["PLAYER", "SEGMENT", "PROJECT"])
      .meta({ description: "PLAYER: the player's own; else a campaign that is on for the player" }),
  })
  .meta({ id: "PlayerBoost" });

const common = group({ tag: "Boosts", project: "caller" });
const write = common.with({ access: { scope: "players:write", roles: ADMINS } });

export const boostRoutes = [
  common.get("/players/{playerId}/boosts", "listPlayerBoosts", {
    access: { scope: "players:read", roles: EVERY_ROLE },
    summary: "List a player's boosts",
    description: "The player's own, and the campaigns that are on for the player.",
    response: z.object({ data: z.array(PlayerBoost) }),
    run: async (work, { projectId, params }) => ({
      data: await listBoosts(work, await getPlayer(work, projectId, params.playerId)),
    }),
  }),
  write.post("/players/{playerId}/boosts", "startPlayerBoost", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
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
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "End a boost of a player",
    description: "The player's own; campaigns are archived, not ended for one player.",
    params: z.object({ playerId: PATH_VALUES.playerId, boostId: z.string().max(64) }),
    response: Deleted,
    run: (work, { projectId, params: { playerId, boostId } }) =>
      deleted(removeBoost(work, { projectId, id: playerId }, boostId)),
  }),
];
