import { z } from "zod";
import { actorOf } from "../../domain/kernel/caller.ts";
import { startErase, startExport } from "../../domain/player-lifecycle/erase.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";

import { writesPlayers } from "./player-bodies.ts";
import { JobBody } from "./project-jobs.ts";

export const playerPrivacyRoutes = [
  writesPlayers.post("/players/{playerId}/export", "exportPlayer", {
    summary: "Export all data of a player",
    description:
      "As a job: its result has every row that is kept of the player, by table, up to 16 MiB. " +
      "`incomplete` names the tables of which there is more, with the number of rows.",
    status: 201,
    response: JobBody,
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
    response: JobBody,
    run: async (work, { projectId, params, body, caller }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      const { dryRun: isDryRun, reason } = body;
      return startErase(work, player, { isDryRun, reason, createdBy: actorOf(caller) });
    },
  }),
];
