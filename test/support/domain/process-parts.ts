import { sql } from "kysely";
import { partitionOf, PARTITIONS } from "../../../src/domain/kernel/ids.ts";
import { outageOf } from "../../../src/domain/kernel/outages.ts";
import {
  processApart,
  type Processed,
  type ProcessOptions,
  processPartitions,
} from "../../../src/domain/progression/claim.ts";
import { groupsOf } from "../../../src/domain/progression/claim-notes.ts";
import { loadPlans } from "../../../src/domain/progression/plan.ts";
import { FIRST_PROJECT, type PartitionCursor } from "../../../src/domain/progression/queue.ts";

/** Every partition of the queue; those of the outbox are fewer. */
export const ALL_PARTS: readonly number[] = Array.from({ length: PARTITIONS }, (_, part) => part);

/** External ids whose events wait in one partition. */
export const usersIn = (projectId: string, part: number, count: number, prefix = "u"): string[] => {
  const users: string[] = [];
  for (let n = 0; users.length < count; n++)
    if (partitionOf(projectId, `${prefix}${n}`) === part) users.push(`${prefix}${n}`);
  return users;
};

/** One of them. */
export const userIn = (projectId: string, part: number): string => usersIn(projectId, part, 1)[0]!;

/** Compiles the plans of all events that wait. */
export const preparePlans = async ({
  transact,
  plans,
}: Pick<ProcessOptions, "transact" | "plans">): Promise<void> => {
  const { rows } = await transact(({ db }) =>
    sql<{ id: string }>`select distinct project_id as id from event_q`.execute(db),
  );
  for (const { id } of rows) await transact((work) => loadPlans(work, [id], plans));
};

/** As `processPartitions`, when the plans of all that waits are compiled. */
export const claimParts = async (
  options: ProcessOptions,
  places: readonly PartitionCursor[],
): Promise<Processed> => {
  await preparePlans(options);
  return processPartitions(options, places);
};

/** Claims that may be undone one after another because others were at work on the same rows. */
const BUSY_MAX = 20;

/** As a worker does: a claim that met others, in a deadlock say, is undone and made again. */
const retrying = () => {
  let busy = 0;
  return async <T>(claim: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await claim();
    } catch (error) {
      if (outageOf(error) !== "busy" || ++busy > BUSY_MAX) throw error;
      return undefined;
    }
  };
};

/**
 * Processes partitions as a worker does, claim by claim, until nothing waits in those that nobody else has.
 * @returns how many events those claims took
 */
export const processParts = async (
  options: Omit<ProcessOptions, "onLeft">,
  parts: Iterable<number>,
): Promise<number> => {
  let events = 0;
  const unlessBusy = retrying();
  let places: PartitionCursor[] = [...parts].map((part) => ({ part, afterProject: FIRST_PROJECT }));
  while (places.length > 0) {
    const left: PartitionCursor[] = [];
    const onLeft = (of: readonly PartitionCursor[]): void => void left.push(...of);
    const done = await unlessBusy(() => processPartitions({ ...options, onLeft }, places));
    if (!done) continue;
    events += done.events;
    const prepared = (await done.preparing) ?? [];
    const late = prepared.map((part) => ({ part, afterProject: FIRST_PROJECT }));
    places = [...left, ...done.again, ...late];
    for (const group of groupsOf(done.apart)) {
      const { events: taken = 0 } = (await unlessBusy(() => processApart(options, group))) ?? {};
      events += taken;
      if (taken > 0) places.push({ part: group[0]!.part, afterProject: FIRST_PROJECT });
    }
  }
  return events;
};
