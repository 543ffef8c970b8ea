import { z } from "zod";
import { actorOf } from "../../domain/kernel/caller.ts";
import { DEFAULT_STRATEGY } from "../../domain/kernel/events/events.ts";
import { mergePlayers } from "../../domain/player-lifecycle/alias.ts";
import { getPlayer, refreshPlayer } from "../../domain/progression/players/players.ts";
import { showPlayer } from "../../domain/progression/players/show.ts";
import { MergeSummaryShape } from "../../domain/delivery/webhooks/catalogue/shapes.ts";

import { PlayerBody, writesPlayers } from "./player-bodies.ts";

const Amounts = z.enum(["SUM", "MAX", "KEEP_TARGET"]);

const Strategy = z.object({
  xp: Amounts.default(DEFAULT_STRATEGY.xp),
  currencies: Amounts.default(DEFAULT_STRATEGY.currencies),
  leaderboards: z
    .enum(["BY_OPERATOR", "KEEP_TARGET"])
    .default(DEFAULT_STRATEGY.leaderboards)
    .meta({ description: "BY_OPERATOR: BEST takes the better score, SUM the sum, LATEST the later one" }),
  profile: z.enum(["TARGET_WINS", "SOURCE_WINS"]).default(DEFAULT_STRATEGY.profile).meta({
    description: "Where both have a value: of names, attributes and metadata. Tags are those of both",
  }),
});

export const playerMergeRoutes = [
  writesPlayers.post("/players/{playerId}/merge", "mergePlayer", {
    summary: "Merge another player into this one",
    description:
      "Permanent. The source's ids, with events that still wait, stand for this player from then on. " +
      "Open holds of the source are released. With `dryRun`, nothing changes and the summary shows " +
      "what would.",
    body: z.object({
      sourcePlayerId: z
        .string()
        .max(300)
        .meta({ description: "The player's UUID, or ext: and the externalUserId" }),
      strategy: Strategy.default(DEFAULT_STRATEGY),
      dryRun: z.boolean().default(false),
    }),
    example: { sourcePlayerId: "ext:user-2", strategy: { xp: "MAX", profile: "TARGET_WINS" }, dryRun: true },
    response: z.object({
      player: PlayerBody,
      mergeId: z.uuid().nullable(),
      summary: MergeSummaryShape.meta({ id: "MergeSummary" }),
    }),
    run: async (work, { projectId, params, body, caller }) => {
      const target = await getPlayer(work, projectId, params.playerId);
      const source = await getPlayer(work, projectId, body.sourcePlayerId);
      const { targetId, mergeId, summary } = await mergePlayers(work, {
        projectId,
        targetId: target.id,
        sourceId: source.id,
        strategy: body.strategy,
        isDryRun: body.dryRun,
        cause: { actor: actorOf(caller) },
      });
      const player = await refreshPlayer(work, projectId, targetId);
      return { player: await showPlayer(work, player), mergeId, summary };
    },
  }),
];
