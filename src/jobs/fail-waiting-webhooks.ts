import { FIRST_WEBHOOK } from "../domain/delivery/webhooks/delivering/claim.ts";
import { failLongWaiting, findUndelivered } from "../domain/delivery/webhooks/delivering/waiting.ts";
import type { Job } from "./job.ts";

const HOUR_MS = 3_600_000;
const ROWS_AT_ONCE = 1_000;

/** Fails deliveries that have waited too long for a webhook that is not being sent to. */
export const failWaitingWebhooks: Job = {
  concurrency: 1,
  everyMs: HOUR_MS,
  run: async (app) => {
    for (let after: string | undefined = FIRST_WEBHOOK; after !== undefined;) {
      const from: string = after;
      const held = await app.transact((work) => findUndelivered(work, from, ROWS_AT_ONCE));
      for (const one of held) {
        let failed: number;
        do {
          failed = await app.transact((work) => failLongWaiting(work, one, ROWS_AT_ONCE));
          app.metrics.webhooks.givenUp.inc(failed);
          await app.limits.pause?.();
        } while (failed === ROWS_AT_ONCE);
      }
      after = held.at(-1)?.id;
    }
  },
};
