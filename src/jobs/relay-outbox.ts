import { relayPartition } from "../domain/outbox/relay.ts";
import type { Job } from "./job.ts";

/** Key: a partition of the outbox. Sends what has been committed until nothing waits. */
export const relayOutbox: Job = {
  name: "relay-outbox",
  concurrency: 4,
  staysHere: true,
  run: async (app, key) => {
    for (;;) {
      const { rows, isMore } = await relayPartition(app, Number(key));
      app.metrics.outboxRelayed.inc(rows);
      // What has been committed since then rings again.
      if (!isMore) return;
      await app.limits.pause?.();
    }
  },
};
