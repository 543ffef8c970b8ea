import { z } from "zod";
import { actorOf } from "../../domain/kernel/caller.ts";
import { startErase, startExport } from "../../domain/player-lifecycle/erase.ts";
import { getPlayer, refreshPlayer } from "../../domain/progression/players/players.ts";
import { DEFAULT_STRATEGY, MergeStrategy } from "../../domain/kernel/events/events.ts";
import { mergePlayers } from "../../domain/player-lifecycle/alias.ts";
import { showPlayer, ShownPlayer } from "../../domain/progression/players/show.ts";
import { MergeSummaryShape } from "../../domain/kernel/events/shapes.ts";
import { writesPlayers } from "./player-bodies.ts";
import { ProjectJob } from "../../domain/long-work/project-jobs.ts";

export const playerPrivacyRoutes = [
  writesPlayers.post("/players/{playerId}/export", "exportPlayer", {
    summary: "Export all data of a player",
    description:
      "As a job: its result has every row that is kept of the player, by table, up to 16 MiB. " +
      "`incomplete` names the tables of which there is more, with the number of rows.",
    status: 201,
    response: ProjectJob,
    run: async (work, { projectId, params, caller }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      return startExport(work, player, actorOf(caller));
    },
  }),
  writesPlayers.post("/players/{playerId}/erase", "erasePlayer", {
    summary: "Erase a player",
    description:
      "As a job, permanently: everything that identifies the person goes. Ledger amounts and their " +
      "hashes stay, without who and why. Events that wait are REJECTED. The same externalUserId is a " +
      "new player from then on. With `dryRun`, the job's result counts rows by table and nothing " +
      "changes.",
    body: z.object({
      dryRun: z.boolean().default(false),
      reason: z
        .string()
        .min(1)
        .max(255)
        .meta({ description: "Kept in the audit log for good: name no person in it" }),
    }),
    example: { reason: "Asked for by the player", dryRun: true },
    status: 201,
    response: ProjectJob,
    run: async (work, { projectId, params, body, caller }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      const { dryRun: isDryRun, reason } = body;
      return startErase(work, player, { isDryRun, reason, createdBy: actorOf(caller) });
    },
  }),
];

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
      strategy: MergeStrategy.default(DEFAULT_STRATEGY),
      dryRun: z.boolean().default(false),
    }),
    example: { sourcePlayerId: "ext:user-2", strategy: { xp: "MAX", profile: "TARGET_WINS" }, dryRun: true },
    response: z.object({
      player: ShownPlayer,
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
