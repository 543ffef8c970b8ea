import type { App } from "../app.ts";
import type { Job } from "./job.ts";
import { EVERY_KEY } from "./runner.ts";
import { WebhookPump } from "./webhook-pump.ts";

/**
 * Key: a webhook with something due. It is handed to the pump of this process, which goes on by itself: an
 * attempt may take half a minute, and is nothing to wait for.
 */
export const createDeliverWebhooks = (): Job => {
  let pump: WebhookPump | undefined;
  const pumpOf = (app: App): WebhookPump => (pump ??= new WebhookPump(app));
  return {
    name: "deliver-webhooks",
    concurrency: 8,
    everyMs: 1_000,
    // What is planned by a relay is sent by the same process; others find by their sweep what it leaves.
    staysHere: true,
    run: async (app, key) => {
      if (key === EVERY_KEY) await pumpOf(app).sweep();
      else pumpOf(app).ring(key);
    },
    atStop: async () => {
      await pump?.stop();
      pump = undefined;
    },
  };
};
