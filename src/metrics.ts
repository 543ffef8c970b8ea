import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Lags } from "./domain/delivery/webhooks/delivering/lag.ts";

/** Interval between two samples of the event loop's delay, in ms. */
const LOOP_SAMPLE_MS = 100;
const HTTP_BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Metrics of this process; `registry` renders them in the Prometheus format. */
export type Metrics = {
  registry: Registry;
  /** Seconds, by method, route (the template, never the actual path) and status. */
  httpDuration: Histogram<"method" | "route" | "status">;
  eventsAccepted: Counter;
  eventsRejected: Counter;
  eventsSkipped: Counter;
  eventsProcessed: Counter;
  batches: Counter;
  outboxRelayed: Counter;
  mailsSent: Counter;
  mailsFailed: Counter;
  joins: Counter<"room">;
  joinsRefused: Counter<"code" | "reason">;
  socketCloses: Counter<"code">;
  processesSwept: Counter;
  roomsRestored: Counter;
  twinsClosed: Counter;
  webhooks: WebhookMetrics;
  /** Sets how to read the ages of the oldest event and delivery at a scrape; it may fail. */
  watchLags(read: () => Promise<Lags>): void;
  /** Sets how to read the gauges of rooms and sockets at a scrape. */
  watchRooms(read: () => RoomGauges): void;
};

/** Webhook metrics of this process. */
export type WebhookMetrics = {
  attempts: Counter<"outcome">;
  givenUp: Counter;
  inFlight: Gauge;
  /** Seconds. */
  attemptDuration: Histogram;
  /** Seconds from an event's commit to its first attempt at a webhook. */
  firstAttemptLag: Histogram;
};

/** Current numbers of rooms and sockets. */
export type RoomGauges = {
  /** Open rooms by kind. */
  rooms: Record<string, number>;
  clients: number;
  sockets: number;
  piped: number;
  waitingJoins: number;
};

const NO_ROOMS: RoomGauges = { rooms: {}, clients: 0, sockets: 0, piped: 0, waitingJoins: 0 };

type Part = Pick<Metrics, "watchRooms"> &
  Pick<Metrics, "joins" | "joinsRefused" | "socketCloses"> &
  Pick<Metrics, "processesSwept" | "roomsRestored" | "twinsClosed">;

/** Registers the metrics of rooms, sockets and the processes that hold them. */
const realtimeMetrics = (registry: Registry): Part => {
  const registers = [registry];
  let readRooms = () => NO_ROOMS;
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  gauge("laurel_ws_clients", "Clients in rooms", () => readRooms().clients);
  gauge("laurel_ws_sockets", "Open sockets of rooms here", () => readRooms().sockets);
  gauge("laurel_ws_piped", "Sockets piped to rooms of other processes", () => readRooms().piped);
  gauge("laurel_joins_waiting", "Joins that wait for their turn", () => readRooms().waitingJoins);
  registry.registerMetric(
    new Gauge({
      name: "laurel_rooms",
      help: "Open rooms",
      labelNames: ["room"],
      registers: [],
      collect() {
        this.reset();
        for (const [room, count] of Object.entries(readRooms().rooms)) this.set({ room }, count);
      },
    }),
  );
  const plain = (name: string, help: string) => new Counter({ name, help, registers });
  const labelled = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Counter({ name, help, labelNames, registers });
  return {
    joins: labelled("laurel_joins_total", "Seats given, by kind of room", "room"),
    joinsRefused: labelled("laurel_joins_refused_total", "Seats refused", "code", "reason"),
    socketCloses: labelled("laurel_ws_closes_total", "Closed sockets by close code", "code"),
    processesSwept: plain("laurel_processes_swept_total", "Dead processes cleaned up after"),
    roomsRestored: plain("laurel_rooms_restored_total", "Rooms listed again after their listing was lost"),
    twinsClosed: plain("laurel_twins_closed_total", "Rooms closed because another process lists their id"),
    watchRooms: (read) => {
      readRooms = read;
    },
  };
};

const ATTEMPT_BUCKETS_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const LAG_BUCKETS_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800];

const webhookMetrics = (registry: Registry): Pick<Metrics, "webhooks" | "watchLags"> => {
  const registers = [registry];
  let readLags: (() => Promise<Lags>) | undefined;
  let reading: Promise<Lags | undefined> | undefined;
  /** Reads both gauges once per scrape; without an answer of the database they are omitted. */
  const lags = (): Promise<Lags | undefined> => {
    reading ??= (readLags?.() ?? Promise.resolve(undefined))
      .catch(() => undefined)
      .finally(() => {
        reading = undefined;
      });
    return reading;
  };
  const lagGauge = (name: string, help: string, kind: keyof Lags) =>
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        this.set((await lags())?.[kind] ?? Number.NaN);
      },
    });
  lagGauge("laurel_outbox_lag_seconds", "Age of the oldest committed event that is not relayed", "outbox");
  lagGauge("laurel_webhook_lag_seconds", "Time that the latest due delivery has been due", "deliveries");
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name, help, buckets, registers });
  return {
    webhooks: {
      attempts: new Counter({
        name: "laurel_webhook_attempts_total",
        help: "Attempts to deliver, by outcome",
        labelNames: ["outcome"],
        registers,
      }),
      givenUp: new Counter({ name: "laurel_webhook_given_up_total", help: "Deliveries given up", registers }),
      inFlight: new Gauge({ name: "laurel_webhook_in_flight", help: "Attempts on their way", registers }),
      attemptDuration: histogram(
        "laurel_webhook_attempt_duration_seconds",
        "Time of an attempt",
        ATTEMPT_BUCKETS_SECONDS,
      ),
      firstAttemptLag: histogram(
        "laurel_webhook_first_attempt_lag_seconds",
        "Time from an event's commit to its first attempt at a webhook",
        LAG_BUCKETS_SECONDS,
      ),
    },
    watchLags: (read) => {
      readLags = read;
    },
  };
};

/** Creates a separate registry per process part, so that two servers in one test do not collide. */
export const createMetrics = (): Metrics => {
  const registry = new Registry();
  const registers = [registry];
  // Each sample of the loop's delay wakes the process, which is most of an idle process's CPU time.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOP_SAMPLE_MS });
  const counter = (name: string, help: string) => new Counter({ name, help, registers });
  return {
    registry,
    httpDuration: new Histogram({
      name: "laurel_http_request_duration_seconds",
      help: "Time from a request's headers to the end of its answer",
      labelNames: ["method", "route", "status"],
      buckets: HTTP_BUCKETS_SECONDS,
      registers,
    }),
    eventsAccepted: counter("laurel_events_accepted_total", "Tracked events stored"),
    eventsRejected: counter("laurel_events_rejected_total", "Tracked events refused"),
    eventsSkipped: counter("laurel_events_skipped_total", "Tracked events that were duplicates"),
    eventsProcessed: counter("laurel_events_processed_total", "Tracked events put through the rules"),
    batches: counter("laurel_batches_total", "Batches of events put through the rules"),
    outboxRelayed: counter("laurel_outbox_relayed_total", "Outbox rows relayed"),
    mailsSent: counter("laurel_mails_sent_total", "Mails that the mail server has taken"),
    mailsFailed: counter("laurel_mails_failed_total", "Mails given up"),
    ...realtimeMetrics(registry),
    ...webhookMetrics(registry),
  };
};
