import { requeueDueEvents, waitingParts } from "../domain/progression/queue.ts";
import type { Job } from "./job.ts";

/** Finds work whose wake was lost (a crash, Redis away) and events whose retry is due. */
export const sweep: Job = {
  name: "sweep",
  concurrency: 1,
  everyMs: 1_000,
  run: async (app) => {
    await app.transact(requeueDueEvents);
    const { events, outbox } = await app.transact(waitingParts);
    for (const part of events) app.queue.wake("process-events", String(part));
    for (const part of outbox) app.queue.wake("relay-outbox", String(part));
  },
};
