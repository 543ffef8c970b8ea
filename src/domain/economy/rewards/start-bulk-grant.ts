import { auditDefinition } from "../../accounts/audit/definitions.ts";
import { checkActiveKey } from "../definitions/references.ts";
import { type ProjectJob, queueJob } from "../../long-work/project-jobs.ts";
import type { Work } from "../../kernel/work.ts";
import { bulkGrant } from "./bulk-grant.ts";
import type { RewardBundle } from "../../evaluation/rewards/bundle.ts";
import { checkBundles } from "./references.ts";

/** Maximum number of players named by one bulk grant. */
export const BULK_PLAYERS_MAX = 10_000;

/** Exactly one of `segmentKey` and `playerIds`. */
export type BulkGrant = {
  segmentKey?: string | undefined;
  playerIds?: readonly string[] | undefined;
  bundle: RewardBundle;
  reason: string;
  createdBy: string;
};

/**
 * Starts granting a bundle to the players of a segment or of a list, evaluated when their page is processed.
 * Unknown ids are skipped.
 * @throws DomainError VALIDATION_ERROR naming the field; CONFLICT JOB_LIMIT
 */
export const startBulkGrant = async (
  work: Work,
  projectId: string,
  grant: BulkGrant,
): Promise<ProjectJob> => {
  const { segmentKey, playerIds, bundle, reason, createdBy } = grant;
  await checkBundles(work, projectId, {
    kind: "grant",
    key: "bulk",
    bundles: [{ bundle, field: "bundle" }],
  });
  if (segmentKey !== undefined)
    await checkActiveKey(work, projectId, { kind: "segment", key: segmentKey, field: "segmentKey" });
  const ids = playerIds && [...new Set(playerIds)];
  const params = { bundle, reason, ...(ids ? { playerIds: ids } : { segmentKey: segmentKey! }) };
  const job = await queueJob(work, projectId, { kind: bulkGrant, params, createdBy });
  await auditDefinition(work, "bulk_grant.started", { projectId, id: job.id });
  return job;
};
