import { relayPartition } from "../domain/outbox/relay.ts";
import type { Job } from "./job.ts";

/** Key: a partition of the outbox. Sends what has been committed until nothing waits. */
export const relayOutbox: Job = {
  name: "relay-outbox",
  concurrency: 4,
  run: async (app, key) => {
    for (;;) {
      const rows = await relayPartition(app, Number(key));
      if (rows === 0) return;
      app.metrics.outboxRelayed.inc(rows);
      await app.limits.pause?.();
    }
  },
};
