import type { App } from "../app.ts";
import { type Backlog, Backlogs } from "../domain/delivery/outbox/backlogs.ts";
import { relayPartitions } from "../domain/delivery/outbox/relay.ts";
import { relayBacklog } from "../domain/delivery/outbox/relay-backlog.ts";
import { RelaySchedule } from "../domain/delivery/outbox/relay-schedule.ts";
import type { AnyJob, Job, JobTogether } from "./job.ts";

type RelayJobName = "relay-outbox" | "relay-backlogs";
/** What both jobs of a process share. */
type Relay = { schedule: RelaySchedule; backlogs: Backlogs };

/** Creates the jobs that publish committed rows: those of all projects together, and those of backlogs. */
export const createRelayJobs = (): Readonly<Record<RelayJobName, AnyJob>> => {
  const relay = { schedule: new RelaySchedule(), backlogs: new Backlogs() };
  return { "relay-outbox": createRelayOutbox(relay), "relay-backlogs": createRelayBacklogs(relay) };
};

/** Key: a partition of the outbox. Publishes committed rows until none is left but those of backlogs. */
const createRelayOutbox = (relay: Relay): JobTogether => ({
  concurrency: 4,
  staysHere: true,
  runTogether: async (app, keys, { done, leave }) => {
    const onRelayed = (parts: readonly number[], more: readonly number[]): void => {
      leave(more.map(String));
      done(parts.map(String));
    };
    const relayed = await relayPartitions({ ...app, ...relay, onRelayed }, keys.map(Number));
    const { rows, again, backlogs } = relayed;
    for (const backlog of backlogs) app.queue.wakeHere("relay-backlogs", keyOf(backlog));
    app.metrics.outboxRelayed.inc(rows);
    if (rows > 0) await app.limits.pause?.();
    // Rows committed since then wake the job again.
    return again.map(String);
  },
});

const keyOf = ({ part, projectId }: Backlog): string => `${part}:${projectId}`;

const backlogOf = (key: string): Backlog => {
  const [part, projectId] = key.split(":");
  return { part: Number(part), projectId: projectId! };
};

/**
 * Key: a backlog. Makes one round of it; backlogs take turns, and shared rounds of the other projects go on
 * beside them.
 */
const createRelayBacklogs = (relay: Relay): Job => ({
  concurrency: 2,
  staysHere: true,
  run: async (app, key) => {
    const backlog = backlogOf(key);
    try {
      const { rows, restMs } = await relayBacklog({ ...app, ...relay }, backlog);
      app.metrics.outboxRelayed.inc(rows);
      if (restMs > 0) wakeLater(app, key, restMs);
      if (rows > 0) await app.limits.pause?.();
      if (restMs === 0 && relay.backlogs.has(backlog)) app.queue.wakeHere("relay-backlogs", key);
    } finally {
      // Its rows belong to the shared rounds again, which have left out those that were committed meanwhile.
      if (!relay.backlogs.has(backlog)) app.queue.wakeHere("relay-outbox", String(backlog.part));
    }
  },
});

const wakeLater = (app: App, key: string, afterMs: number): void => {
  setTimeout(() => app.queue.wakeHere("relay-backlogs", key), afterMs).unref();
};
