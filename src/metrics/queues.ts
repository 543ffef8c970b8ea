import { Gauge, type Registry } from "prom-client";
import type { Lags } from "../domain/delivery/webhooks/delivering/claim.ts";
import type { Queues } from "../domain/delivery/queues.ts";

/** Connections to the database: in use, idle, the most there may be, and how much work waits for one. */
export type PoolNumbers = { inUse: number; idle: number; waiting: number; max: number };

/** What all processes share: numbers of the database's queues; and the process's own connections to it. */
export type QueueMetrics = {
  /** Sets how to read the queues at a scrape; it may fail. */
  watchQueues(read: () => Promise<Lags & Queues>): void;
  /** Sets how to read the pool at a scrape. */
  watchPool(read: () => PoolNumbers): void;
};

type Reading = (Lags & Queues) | undefined;

/** Registers the gauges of queues and of the pool. */
export const queueMetrics = (registry: Registry): QueueMetrics => {
  const registers = [registry];
  let read: (() => Promise<Lags & Queues>) | undefined;
  let reading: Promise<Reading> | undefined;
  /** Reads all gauges once per scrape; without an answer of the database they are NaN. */
  const queues = (): Promise<Reading> => {
    reading ??= (read?.() ?? Promise.resolve(undefined))
      .catch(() => undefined)
      .finally(() => {
        reading = undefined;
      });
    return reading;
  };
  const lagGauge = (name: string, help: string, of: (numbers: Lags & Queues) => number) =>
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        const numbers = await queues();
        this.set(numbers ? of(numbers) : Number.NaN);
      },
    });
  lagGauge("laurel_event_lag_seconds", "Age of the oldest event that waits for the rules", (all) => all.age);
  lagGauge("laurel_outbox_lag_seconds", "Age of the oldest commit that is not relayed", (all) => all.outbox);
  lagGauge("laurel_webhook_lag_seconds", "Time that the latest due delivery has been due", (all) => {
    return all.deliveries;
  });
  registry.registerMetric(
    new Gauge({
      name: "laurel_queue_length",
      help: "Rows that wait in a queue of the database, counted up to 100,000",
      labelNames: ["queue"],
      registers: [],
      async collect() {
        const lengths = (await queues())?.lengths;
        for (const queue of ["events", "events_due", "commits"] as const)
          this.set({ queue }, lengths?.[queue] ?? Number.NaN);
      },
    }),
  );
  return {
    watchQueues: (from) => {
      read = from;
    },
    watchPool: poolGauge(registry),
  };
};

const poolGauge = (registry: Registry): QueueMetrics["watchPool"] => {
  let read: (() => PoolNumbers) | undefined;
  registry.registerMetric(
    new Gauge({
      name: "laurel_database_connections",
      help: "Connections to the database: in use, idle, the most there may be, and work waiting for one",
      labelNames: ["state"],
      registers: [],
      collect() {
        if (!read) return;
        const { inUse, idle, waiting, max } = read();
        for (const [state, value] of Object.entries({ in_use: inUse, idle, waiting, max }))
          this.set({ state }, value);
      },
    }),
  );
  return (from) => {
    read = from;
  };
};
