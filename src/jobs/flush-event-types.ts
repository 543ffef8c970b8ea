import { writeEventTypes } from "../domain/tracking/event-type-recorder.ts";
import { mapInSlices } from "../domain/kernel/slices.ts";
import type { App } from "../app.ts";
import type { Job } from "./job.ts";

const FLUSH_MS = 5_000;
/** Types per transaction: the observed properties may be 20 kB each. */
const ROWS_AT_ONCE = 50;

/** Writes what has been observed; rows that could not be written are kept for the next run. */
const flush = async ({ transact, eventTypes: recorder }: App): Promise<void> => {
  const types = recorder.take();
  while (types.length > 0) {
    const some = await mapInSlices(types.splice(0, ROWS_AT_ONCE), recorder.describe);
    try {
      await transact((work) => writeEventTypes(work, some));
    } catch (error) {
      recorder.restore([...some, ...types]);
      throw error;
    }
  }
};

/** Adds the event types observed by workers to the table. A process that is killed loses up to 5 s. */
export const flushEventTypes: Job = {
  concurrency: 1,
  everyMs: FLUSH_MS,
  staysHere: true,
  run: flush,
  atStop: flush,
};
