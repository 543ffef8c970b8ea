import { relayPartitions } from "../domain/delivery/outbox/relay.ts";
import { RelaySchedule } from "../domain/delivery/outbox/relay-schedule.ts";
import type { JobTogether } from "./job.ts";

/** Key: a partition of the outbox. Publishes committed rows until none is left. */
export const createRelayOutbox = (): JobTogether => {
  const schedule = new RelaySchedule();
  return {
    concurrency: 4,
    staysHere: true,
    runTogether: async (app, keys, { done, leave }) => {
      const onRelayed = (parts: readonly number[], more: readonly number[]): void => {
        leave(more.map(String));
        done(parts.map(String));
      };
      const { rows, again } = await relayPartitions({ ...app, schedule, onRelayed }, keys.map(Number));
      app.metrics.outboxRelayed.inc(rows);
      if (rows > 0) await app.limits.pause?.();
      // Rows committed since then wake the job again.
      return again.map(String);
    },
  };
};
