import { newId } from "../../kernel/ids.ts";
import { type ProjectJob, queueJob } from "../../long-work/project-jobs.ts";
import type { Work } from "../../kernel/work.ts";
import { getPlayer } from "../../progression/players/players.ts";
import { auditEvent } from "../../tracking/audit-event.ts";
import type { HowToRevert } from "../revert-result.ts";
import { bulkRevert } from "./bulk-revert.ts";
import type { EventFilter } from "./event-filter.ts";

/** Maximum number of events that a filter may name. */
export const BULK_EVENT_IDS_MAX = 10_000;

/** With `dryRun`, the job counts and changes nothing. */
export type BulkRevert = HowToRevert & {
  /** `playerRef` as in `{playerId}`. */
  filter: Omit<EventFilter, "playerId"> & { playerRef?: string | undefined };
  dryRun: boolean;
};

/**
 * Starts reverting the events that match a filter and have arrived until now.
 * @throws DomainError NOT_FOUND for an unknown player; CONFLICT JOB_LIMIT
 */
export const startBulkRevert = async (
  work: Work,
  projectId: string,
  { filter, reason, onShortfall, dryRun, actor }: BulkRevert,
): Promise<ProjectJob> => {
  const { eventIds, playerRef, ...others } = filter;
  // By the id of Laurel: what is stored names nobody.
  const rest: EventFilter =
    playerRef === undefined
      ? others
      : { ...others, playerId: (await getPlayer(work, projectId, playerRef)).id };
  const ids = eventIds && [...new Set(eventIds.map((id) => id.toLowerCase()))].toSorted();
  const params = {
    filter: { ...rest, ...(ids ? { eventIds: ids } : {}) },
    upTo: newId(),
    reason,
    onShortfall,
    dryRun,
  };
  const job = await queueJob(work, projectId, { kind: bulkRevert, params, createdBy: actor });
  const named = ids ? { ...rest, eventIds: ids.length } : rest;
  const data = { projectId, reason, onShortfall, dryRun, filter: named };
  await auditEvent(work, "event.bulk_revert_requested", { id: job.id, ...data });
  return job;
};
