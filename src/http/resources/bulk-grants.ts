import { z } from "zod";
import { actorOf, ADMINS } from "../../domain/kernel/caller.ts";
import { isEmptyBundle, RewardBundle } from "../../domain/evaluation/rewards/bundle.ts";
import { BULK_PLAYERS_MAX, startBulkGrant } from "../../domain/economy/rewards/references.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { group } from "../route.ts";
import { JobBody } from "./project-jobs.ts";

const BulkGrant = z
  .strictObject({
    segmentKey: Key.optional(),
    playerIds: z.array(z.uuid()).min(1).max(BULK_PLAYERS_MAX).optional(),
    bundle: RewardBundle.refine((bundle) => !isEmptyBundle(bundle), "must give something"),
    reason: z.string().min(1).max(255),
  })
  .refine(
    ({ segmentKey, playerIds }) => (segmentKey === undefined) !== (playerIds === undefined),
    "needs exactly one of segmentKey and playerIds",
  )
  .meta({ example: { segmentKey: "veterans", bundle: { xp: 100 }, reason: "Thanks for a year" } });

const write = group({ tag: "Rewards", project: "caller", access: { scope: "players:write", roles: ADMINS } });

export const bulkGrantRoutes = [
  write.post("/grants/bulk", "startBulkGrant", {
    summary: "Give a bundle to many players",
    description:
      "As a job; each player gets it once. Its result counts grants (granted), ids without an ACTIVE " +
      "player of the project (skipped), and failures.",
    body: BulkGrant,
    status: 201,
    response: JobBody,
    run: (work, { projectId, body, caller }) =>
      startBulkGrant(work, projectId, { ...body, createdBy: actorOf(caller) }),
  }),
];
