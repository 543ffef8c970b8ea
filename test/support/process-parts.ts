import { PARTITIONS } from "../../src/domain/ids.ts";
import { processPartitions, type ProcessOptions } from "../../src/domain/progression/claim.ts";
import { FIRST_PROJECT, type Place } from "../../src/domain/progression/queue.ts";

/** Every partition of the queue; those of the outbox are fewer. */
export const ALL_PARTS: readonly number[] = Array.from({ length: PARTITIONS }, (_, part) => part);

/**
 * Processes partitions as a worker does, claim by claim, until nothing waits in those that nobody else has.
 * @returns how many events those claims took
 */
export const processParts = async (
  options: Omit<ProcessOptions, "onLeft">,
  parts: Iterable<number>,
): Promise<number> => {
  let events = 0;
  let places: Place[] = [...parts].map((part) => ({ part, afterProject: FIRST_PROJECT }));
  while (places.length > 0) {
    const left: Place[] = [];
    const onLeft = (of: readonly Place[]): void => void left.push(...of);
    const done = await processPartitions({ ...options, onLeft }, places);
    events += done.events;
    places = [...left, ...done.again];
  }
  return events;
};
