import type { App } from "../app.ts";
import { outageOf } from "../domain/kernel/outages.ts";
import { settleDeaths } from "../domain/progression/deaths.ts";
import type { InHand } from "../domain/progression/in-hand.ts";
import type { AnyJob, Job } from "./job.ts";
import { createHandOf, createProcessEvents, type HandOf, logFailedEvent } from "./process-events.ts";

/** How often a process shows that it is alive and looks for those that have died, in ms. */
const LOOK_EVERY_MS = 500;

type EventJobName = "process-events" | "watch-processes";

/** Creates the jobs that process events, which share what their process has in hand. */
export const createEventJobs = (): Readonly<Record<EventJobName, AnyJob>> => {
  const handOf = createHandOf();
  return { "process-events": createProcessEvents(handOf), "watch-processes": createWatchProcesses(handOf) };
};

/** Looks for processes that died with events in hand, and settles what they have left. */
const createWatchProcesses = (handOf: HandOf): Job => {
  const logged = new Set<string>();
  let settling: Promise<void> | undefined;
  return {
    concurrency: 1,
    everyMs: LOOK_EVERY_MS,
    run: async (app) => {
      const hand = handOf(app);
      await hand.look();
      logDead(app, hand, logged);
      // Not awaited: while the database is slow, this process has to show that it is alive.
      if (hand.dead.length > 0) settling ??= settle(app, hand).finally(() => (settling = undefined));
    },
    atStop: async () => settling,
  };
};

/** Logs each dead process once. */
const logDead = ({ log }: App, { dead }: InHand, logged: Set<string>): void => {
  const ids = new Set(dead.map(({ id }) => id));
  for (const id of logged) if (!ids.has(id)) logged.delete(id);
  for (const { id, noted } of dead.filter((one) => !logged.has(one.id))) {
    logged.add(id);
    log.warn({ noted }, "a process died with events in hand; those that still wait are run apart, in halves");
  }
};

/** Settles what the dead have left, and wakes the partitions of the suspects. Never rejects. */
const settle = async (app: App, hand: InHand): Promise<void> => {
  try {
    const onLost = (err: unknown, noted: object): void =>
      app.log.error({ err, noted }, "what a dead process has left cannot be settled, and is forgotten");
    await settleDeaths(hand, { transact: app.transact, onError: logFailedEvent(app), onLost });
  } catch (err) {
    // The next look tries again.
    if (outageOf(err) === undefined) app.log.error({ err }, "what a dead process has left is not settled");
  }
  for (const part of hand.suspectParts) app.queue.wakeHere("process-events", String(part));
};
