import type { App } from "../app.ts";
import type { Job } from "./job.ts";
import { EVERY_KEY } from "./runner.ts";
import { WebhookPump } from "./webhook-pump.ts";

const pumps = new WeakMap<App, WebhookPump>();

const pumpOf = (app: App): WebhookPump => {
  const known = pumps.get(app);
  if (known) return known;
  const pump = new WebhookPump(app);
  pumps.set(app, pump);
  return pump;
};

/**
 * Key: a webhook with something due. It is handed to the pump of this process, which goes on by itself: an
 * attempt may take half a minute, and is nothing to wait for.
 */
export const deliverWebhooks: Job = {
  name: "deliver-webhooks",
  concurrency: 8,
  everyMs: 1_000,
  // What is planned by a relay is sent by the same process; others find by their sweep what it leaves.
  staysHere: true,
  run: async (app, key) => {
    const pump = pumpOf(app);
    if (key === EVERY_KEY) await pump.sweep();
    else pump.ring(key);
  },
  atStop: async (app) => {
    await pumps.get(app)?.stop();
    pumps.delete(app);
  },
};
