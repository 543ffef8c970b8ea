import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Config } from "./config.ts";
import type { Overdue } from "./domain/accounts/domains/states.ts";
import type { Queues } from "./domain/delivery/queues.ts";
import type { Lags } from "./domain/delivery/webhooks/delivering/claim.ts";
import type { CacheSize } from "./domain/kernel/caches.ts";
import type { TableSize } from "./domain/kernel/db.ts";

/** Interval between two samples of the event loop's delay, in ms. */
const LOOP_SAMPLE_MS = 100;
const HTTP_BUCKETS_SECONDS = [0.005, 0.025, 0.1, 0.25, 1, 2.5];

/** Metrics of this process; `registry` renders them in the Prometheus format. */
export type Metrics = ReturnType<typeof createMetrics>;

type Build = Pick<Config, "version" | "mode" | "roles">;

/** Metrics that are counted where things happen. */
const makers = (registry: Registry) => {
  const registers = [registry];
  return {
    counter: <L extends string = never>(name: string, help: string, ...labelNames: L[]) =>
      new Counter({ name, help, labelNames, registers }),
    gauge: <L extends string = never>(name: string, help: string, ...labelNames: L[]) =>
      new Gauge({ name, help, labelNames, registers }),
    histogram: <L extends string = never>(
      name: string,
      help: string,
      buckets: number[],
      ...labelNames: L[]
    ) => new Histogram({ name, help, buckets, labelNames, registers }),
  };
};

const showBuild = (registry: Registry, build: Build | undefined): void => {
  const labels = ["version", "node", "mode", "roles"] as const;
  const info = makers(registry).gauge("laurel_build_info", "1, with what this process is", ...labels);
  if (!build) return;
  const { version, mode, roles } = build;
  info.set({ version, node: process.version, mode, roles: [...roles].toSorted().join(",") }, 1);
};

const httpMetrics = (registry: Registry) => {
  const { counter, histogram } = makers(registry);
  return {
    httpDuration: histogram(
      "laurel_http_request_duration_seconds",
      "Time from a request's headers to the end of its answer",
      HTTP_BUCKETS_SECONDS,
      "group",
      "status",
    ),
    httpRequests: counter(
      "laurel_http_requests_total",
      "Requests that were answered, or whose client has gone before (4xx)",
      "method",
      "route",
      "status",
    ),
    requestsRefused: counter(
      "laurel_requests_refused_total",
      "Requests refused by a limit (RATE_LIMITED), or by load or an outage (SERVICE_UNAVAILABLE)",
      "code",
      "reason",
    ),
  };
};

/** Gauges of prom-client under names of counters; the ones by type have the same numbers. */
const MISNAMED = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

/**
 * Creates a separate registry per process part, so that two servers in one test do not collide.
 * @param build what the process is, for `laurel_build_info`
 */
export const createMetrics = (build?: Build) => {
  const registry = new Registry();
  // Each sample of the loop's delay wakes the process, which is most of an idle process's CPU time.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOP_SAMPLE_MS });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  showBuild(registry, build);
  const { counter } = makers(registry);
  return {
    registry,
    ...httpMetrics(registry),
    eventsAccepted: counter("laurel_events_accepted_total", "Tracked events stored"),
    eventsRejected: counter("laurel_events_rejected_total", "Tracked events refused"),
    eventsSkipped: counter("laurel_events_skipped_total", "Tracked events that were duplicates"),
    eventsProcessed: counter("laurel_events_processed_total", "Tracked events put through the rules"),
    batches: counter("laurel_batches_total", "Batches of events put through the rules"),
    outboxRelayed: counter("laurel_outbox_relayed_total", "Outbox rows relayed"),
    mailsSent: counter("laurel_mails_sent_total", "Mails that the mail server has taken"),
    mailsFailed: counter("laurel_mails_failed_total", "Mails given up"),
    ...realtimeMetrics(registry),
    ...queueMetrics(registry),
    ...tableMetrics(registry),
    ...secretMetrics(registry),
    ...certificateMetrics(registry),
    ...sharingMetrics(registry),
    ...warehouseMetrics(registry),
    webhooks: webhookMetrics(registry),
  };
};

/** How long what was read of whole tables is reused, in ms; it is the same in every process. */
const KEPT_MS = 60_000;

type Labelled = Readonly<Record<string, number>>;
type Described = { name: string; help: string; label?: string };

/** What gauges read together at a scrape, from the moment that `watch` says how. */
class Reading<T> {
  readonly #registry: Registry;
  readonly #keptMs: number;
  #read: (() => T | Promise<T>) | undefined;
  #reading: Promise<T | undefined> | undefined;
  #untilMs = -Infinity;

  /** @param keptMs how long it is reused; what failed is not */
  constructor(registry: Registry, keptMs = 0) {
    this.#registry = registry;
    this.#keptMs = keptMs;
  }

  /** Sets how to read it at a scrape; it may fail. */
  readonly watch = (read: () => T | Promise<T>): void => {
    this.#read = read;
    this.#untilMs = -Infinity;
  };

  /**
   * Adds a gauge.
   * @param of its number, or those by the value of its label; NaN or none while nothing can be read
   */
  gauge({ name, help, label }: Described, of: (value: T) => number | Labelled): this {
    const get = () => this.#get();
    const isWatched = () => this.#read !== undefined;
    this.#registry.registerMetric(
      new Gauge({
        name,
        help,
        labelNames: label === undefined ? [] : [label],
        registers: [],
        async collect() {
          if (!isWatched()) return;
          const value = await get();
          const numbers = value === undefined ? (label === undefined ? Number.NaN : {}) : of(value);
          this.reset();
          if (typeof numbers === "number") return this.set(numbers);
          for (const [one, number] of Object.entries(numbers)) this.set({ [label!]: one }, number);
        },
      }),
    );
    return this;
  }

  /** All gauges of a scrape share a reading. */
  #get(): Promise<T | undefined> {
    if (performance.now() >= this.#untilMs) this.#reading = undefined;
    return (this.#reading ??= this.#start());
  }

  async #start(): Promise<T | undefined> {
    this.#untilMs = Infinity;
    try {
      const value = await this.#read?.();
      this.#untilMs = performance.now() + this.#keptMs;
      return value;
    } catch {
      this.#untilMs = -Infinity;
      return undefined;
    }
  }
}

/** Gauges of certificates of custom domains; absent where this server orders none. */
const certificateMetrics = (registry: Registry) => {
  const overdue = new Reading<readonly Overdue[]>(registry, KEPT_MS);
  const countOf = (all: readonly Overdue[], cause: string): number =>
    all.find((one) => one.cause === cause)?.count ?? 0;
  overdue
    .gauge(
      {
        name: "laurel_certificates_overdue",
        help: "Certificates overdue for an hour: caa (CAA records forbid them) or order (orders fail: the log says why)",
        label: "cause",
      },
      (all) => ({ caa: countOf(all, "caa"), order: countOf(all, "order") }),
    )
    .gauge(
      {
        name: "laurel_certificates_overdue_left_seconds",
        help: "Time until the first of these certificates ends, or since then below 0",
        label: "cause",
      },
      (all) => Object.fromEntries(all.map(({ cause, leftSeconds }) => [cause, leftSeconds])),
    );
  return { watchCertificates: overdue.watch };
};

/** Current numbers of rooms and sockets; `rooms`: open ones by kind. */
type RoomGauges = {
  rooms: Record<string, number>;
  clients: number;
  sockets: number;
  piped: number;
  waitingJoins: number;
};

/** Metrics of rooms, sockets and the processes that hold them. */
const realtimeMetrics = (registry: Registry) => {
  const { counter } = makers(registry);
  const rooms = new Reading<RoomGauges>(registry)
    .gauge({ name: "laurel_ws_clients", help: "Clients in rooms" }, ({ clients }) => clients)
    .gauge({ name: "laurel_ws_sockets", help: "Open sockets of rooms here" }, ({ sockets }) => sockets)
    .gauge({ name: "laurel_ws_piped", help: "Sockets piped to rooms of other processes" }, (all) => all.piped)
    .gauge(
      { name: "laurel_joins_waiting", help: "Joins that wait for their turn" },
      (all) => all.waitingJoins,
    )
    .gauge({ name: "laurel_rooms", help: "Open rooms", label: "room" }, (all) => all.rooms);
  return {
    joins: counter("laurel_joins_total", "Seats given, by kind of room", "room"),
    joinsRefused: counter("laurel_joins_refused_total", "Seats refused", "code", "reason"),
    socketCloses: counter("laurel_ws_closes_total", "Closed sockets by close code", "code"),
    processesSwept: counter("laurel_processes_swept_total", "Dead processes cleaned up after"),
    roomsRestored: counter("laurel_rooms_restored_total", "Rooms listed again after their listing was lost"),
    twinsClosed: counter("laurel_twins_closed_total", "Rooms closed because another process lists their id"),
    watchRooms: rooms.watch,
  };
};

/** What an operator waits for before a key of encryption is taken away: values under others than the first. */
const secretMetrics = (registry: Registry) => ({
  watchSecrets: new Reading<ReadonlyMap<string, number>>(registry, KEPT_MS).gauge(
    {
      name: "laurel_secrets_of_old_keys",
      help: "Stored secrets that another key than the first of ENCRYPTION_KEYS has encrypted",
      label: "value",
    },
    (counts) => Object.fromEntries(counts),
  ).watch,
});

const GROUP_BUCKETS = [1, 2, 4, 8, 16, 32, 64];

/** What the caches of reads hold, by cache, and entries that wait for the rank index. */
type CacheNumbers = { sizes: Readonly<Record<string, CacheSize>>; ownEntries: number };

const sizesOf = ({ sizes }: CacheNumbers, name: keyof CacheSize): Labelled =>
  Object.fromEntries(Object.entries(sizes).map(([cache, size]) => [cache, size[name]]));

/** Metrics of what requests share: transactions, and answers from memory. */
const sharingMetrics = (registry: Registry) => {
  const { counter, histogram } = makers(registry);
  const help = "Requests of a shared transaction";
  const groups = histogram("laurel_shared_commit_requests", help, GROUP_BUCKETS);
  const leftHelp =
    "Requests that left: alone (others hold the player), next (goes to the next), failed (repeated alone)";
  const left = counter("laurel_shared_commit_left_total", leftHelp, "how");
  const waiting = new Reading<number>(registry).gauge(
    { name: "laurel_shared_commit_waiting", help: "Requests that wait for a shared transaction" },
    (count) => count,
  );
  const caches = new Reading<CacheNumbers>(registry)
    .gauge({ name: "laurel_cache_items", help: "Values in a cache of reads", label: "cache" }, (all) =>
      sizesOf(all, "items"),
    )
    .gauge(
      { name: "laurel_cache_bytes", help: "Bytes of the values in a cache of reads", label: "cache" },
      (all) => sizesOf(all, "bytes"),
    )
    .gauge(
      {
        name: "laurel_own_entries",
        help: "Entries of leaderboards that requests of this process have changed and the index may not have",
      },
      ({ ownEntries }) => ownEntries,
    );
  return {
    commits: {
      began: (requests: number) => groups.observe(requests),
      left: (how: string, requests: number) => left.inc({ how: how.toLowerCase() }, requests),
      watchWaiting: waiting.watch,
    },
    cacheLookUps: counter(
      "laurel_cache_lookups_total",
      "Looks into the caches of reads: pages of leaderboards (answers), and what they are made of; chats",
      "cache",
      "result",
    ),
    watchCaches: caches.watch,
  };
};

/** What tables take of the disk. */
const tableMetrics = (registry: Registry) => ({
  watchTables: new Reading<TableSize[]>(registry, KEPT_MS).gauge(
    {
      name: "laurel_table_bytes",
      help: "Bytes of a table on disk, with its indexes and partitions",
      label: "table",
    },
    (sizes) => Object.fromEntries(sizes.map(({ table, bytes }) => [table, bytes])),
  ).watch,
});

/** What this process writes for the warehouse, and how long events have waited for it in all processes. */
const warehouseMetrics = (registry: Registry) => {
  const { counter } = makers(registry);
  const lag = new Reading<number>(registry).gauge(
    {
      name: "laurel_warehouse_lag_seconds",
      help: "Age of the oldest event that is in no file of the warehouse",
    },
    (seconds) => seconds,
  );
  return {
    warehouse: {
      files: counter("laurel_warehouse_files_total", "Files written for the warehouse", "kind"),
      records: counter("laurel_warehouse_records_total", "Records in files for the warehouse", "kind"),
      bytes: counter("laurel_warehouse_bytes_total", "Bytes written for the warehouse"),
      failures: counter(
        "laurel_warehouse_failures_total",
        "Turns that failed, and files of the warehouse that could not be read or removed",
      ),
      watchLag: lag.watch,
    },
  };
};

const ATTEMPT_BUCKETS_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const LAG_BUCKETS_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800];

/** Metrics of webhook deliveries of this process; times are in seconds. */
const webhookMetrics = (registry: Registry) => {
  const { counter, gauge, histogram } = makers(registry);
  return {
    attempts: counter("laurel_webhook_attempts_total", "Attempts to deliver, by outcome", "outcome"),
    givenUp: counter("laurel_webhook_given_up_total", "Deliveries given up"),
    inFlight: gauge("laurel_webhook_in_flight", "Attempts on their way"),
    attemptDuration: histogram(
      "laurel_webhook_attempt_duration_seconds",
      "Time of an attempt",
      ATTEMPT_BUCKETS_SECONDS,
    ),
    /** From an event's commit to its first attempt at a webhook. */
    firstAttemptLag: histogram(
      "laurel_webhook_first_attempt_lag_seconds",
      "Time from an event's commit to its first attempt at a webhook",
      LAG_BUCKETS_SECONDS,
    ),
  };
};

/** Connections to the database: in use, idle, the most there may be, and how much work waits for one. */
export type PoolNumbers = { inUse: number; idle: number; waiting: number; max: number };

/** What all processes share: numbers of the database's queues; and the process's own connections to it. */
const queueMetrics = (registry: Registry) => {
  const queues = new Reading<Lags & Queues>(registry)
    .gauge(
      { name: "laurel_event_lag_seconds", help: "Age of the oldest event that waits for the rules" },
      ({ age }) => age,
    )
    .gauge(
      { name: "laurel_outbox_lag_seconds", help: "Age of the oldest commit that is not relayed" },
      ({ outbox }) => outbox,
    )
    .gauge(
      { name: "laurel_webhook_lag_seconds", help: "Time that the latest due delivery has been due" },
      ({ deliveries }) => deliveries,
    )
    .gauge(
      {
        name: "laurel_queue_length",
        help: "Rows that wait in a queue of the database, counted up to 100,000",
        label: "queue",
      },
      ({ lengths }) => lengths,
    )
    .gauge(
      {
        name: "laurel_rollups_halted",
        help: "Projects whose analytics read events in place of rollups, until laurel analytics rebuild",
      },
      ({ rollupsHalted }) => rollupsHalted,
    );
  const pool = new Reading<PoolNumbers>(registry).gauge(
    {
      name: "laurel_database_connections",
      help: "Connections to the database: in use, idle, the most there may be, and work waiting for one",
      label: "state",
    },
    ({ inUse, idle, waiting, max }) => ({ in_use: inUse, idle, waiting, max }),
  );
  return { watchQueues: queues.watch, watchPool: pool.watch };
};
