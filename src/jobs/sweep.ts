import { requeueDueEvents, waitingParts } from "../domain/progression/queue.ts";
import type { Job } from "./job.ts";

/** Finds work whose wake was lost (a crash, Redis unavailable) and events whose retry is due. */
export const sweep: Job = {
  concurrency: 1,
  everyMs: 1_000,
  run: async (app) => {
    await app.transact(requeueDueEvents);
    const { events, outbox } = await app.transact(waitingParts);
    // In this process, not through the queue: events are processed also while Redis is unavailable.
    for (const part of events) app.queue.wakeHere("process-events", String(part));
    for (const part of outbox) app.queue.wake("relay-outbox", String(part));
  },
};
