import type { App } from "../app.ts";
import { areDeliveriesPending } from "../domain/delivery/webhooks/delivering/claim.ts";
import { type Job, UNASKED_MS } from "./job.ts";
import { EVERY_KEY } from "./runner.ts";
import { WebhookPump } from "./webhook-pump.ts";

/**
 * Key: a webhook with a due delivery. The job passes it to the pump of this process, which runs by itself: an
 * attempt may take half a minute and is not awaited.
 */
export const createDeliverWebhooks = (): Job => {
  let pump: WebhookPump | undefined;
  const pumpOf = (app: App): WebhookPump => (pump ??= new WebhookPump(app));
  return {
    concurrency: 8,
    everyMs: UNASKED_MS,
    isDue: areDeliveriesPending,
    // Deliveries planned by a relay are sent by the same process; other processes find leftovers by their
    // sweep.
    staysHere: true,
    run: async (app, key) => {
      if (key === EVERY_KEY) await pumpOf(app).sweep();
      else pumpOf(app).wake(key);
    },
    atStop: async () => {
      await pump?.stop();
      pump = undefined;
    },
  };
};
