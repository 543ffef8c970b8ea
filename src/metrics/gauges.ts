import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Overdue } from "../domain/accounts/domains/certificate-notices.ts";
import type { CacheSize } from "../domain/kernel/caches.ts";
import type { TableSize } from "../domain/kernel/db.ts";
import type { CommitObserver } from "../domain/kernel/shared-commits.ts";

/** How long what was read is reused, in ms: it is the same in every process. */
const READ_KEPT_MS = 60_000;

/** Certificates of custom domains that are not renewed in time. */
export type CertificateMetrics = {
  /** Sets how to read them at a scrape; it may fail. */
  watchCertificates(read: () => Promise<readonly Overdue[]>): void;
};

/** Registers the gauges of certificates; they are absent where this server orders none. */
export const certificateMetrics = (registry: Registry): CertificateMetrics => {
  let read: (() => Promise<readonly Overdue[]>) | undefined;
  let reading: Promise<readonly Overdue[] | undefined> | undefined;
  let readUntilMs = -Infinity;
  /** Both gauges are of one reading; one that failed is repeated at the next scrape. */
  const overdue = (): Promise<readonly Overdue[] | undefined> => {
    if (reading && performance.now() < readUntilMs) return reading;
    readUntilMs = performance.now() + READ_KEPT_MS;
    reading = (read?.() ?? Promise.resolve(undefined)).catch(() => {
      readUntilMs = -Infinity;
      return undefined;
    });
    return reading;
  };
  const gauge = (name: string, help: string, set: (gauge: Gauge<"cause">, of: readonly Overdue[]) => void) =>
    registry.registerMetric(
      new Gauge({
        name,
        help,
        labelNames: ["cause"],
        registers: [],
        async collect() {
          const all = await overdue();
          this.reset();
          if (all) set(this, all);
        },
      }),
    );
  const overdueHelp =
    "Certificates overdue for an hour: caa (CAA records forbid them) or order (orders fail: the log says why)";
  gauge("laurel_certificates_overdue", overdueHelp, (one, all) => {
    for (const cause of ["caa", "order"] as const)
      one.set({ cause }, all.find((some) => some.cause === cause)?.count ?? 0);
  });
  const leftHelp = "Time until the first of these certificates ends, or since then below 0";
  gauge("laurel_certificates_overdue_left_seconds", leftHelp, (one, all) => {
    for (const { cause, leftSeconds } of all) one.set({ cause }, leftSeconds);
  });
  return {
    watchCertificates: (how) => {
      read = how;
      readUntilMs = -Infinity;
    },
  };
};

/** Current numbers of rooms and sockets. */
type RoomGauges = {
  /** Open rooms by kind. */
  rooms: Record<string, number>;
  clients: number;
  sockets: number;
  piped: number;
  waitingJoins: number;
};

const NO_ROOMS: RoomGauges = { rooms: {}, clients: 0, sockets: 0, piped: 0, waitingJoins: 0 };

/** Metrics of rooms, sockets and the processes that hold them. */
export type RoomMetrics = {
  joins: Counter<"room">;
  joinsRefused: Counter<"code" | "reason">;
  socketCloses: Counter<"code">;
  processesSwept: Counter;
  roomsRestored: Counter;
  twinsClosed: Counter;
  /** Sets how to read the gauges of rooms and sockets at a scrape. */
  watchRooms(read: () => RoomGauges): void;
};

/** Registers the metrics of rooms, sockets and the processes that hold them. */
export const realtimeMetrics = (registry: Registry): RoomMetrics => {
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

/** How long counts are reused, in ms: they read whole tables. */
const COUNTS_KEPT_MS = 60_000;

/** What an operator waits for before a key of encryption is taken away. */
export type SecretMetrics = {
  /** Sets how to count the values under other keys than the first, by kind, at a scrape; it may fail. */
  watchSecrets(read: () => Promise<ReadonlyMap<string, number>>): void;
};

/** Registers the gauge of values that other keys than the first have encrypted. */
export const secretMetrics = (registry: Registry): SecretMetrics => {
  let readCounts: (() => Promise<ReadonlyMap<string, number>>) | undefined;
  let readUntilMs = -Infinity;
  registry.registerMetric(
    new Gauge({
      name: "laurel_secrets_of_old_keys",
      help: "Stored secrets that another key than the first of ENCRYPTION_KEYS has encrypted",
      labelNames: ["value"],
      registers: [],
      async collect() {
        if (!readCounts || performance.now() < readUntilMs) return;
        const counts = await readCounts().catch(() => undefined);
        this.reset();
        for (const [value, count] of counts ?? []) this.set({ value }, count);
        if (counts) readUntilMs = performance.now() + COUNTS_KEPT_MS;
      },
    }),
  );
  return {
    watchSecrets: (read) => {
      readCounts = read;
    },
  };
};

const GROUP_BUCKETS = [1, 2, 4, 8, 16, 32, 64];

/** What the caches of reads hold, by cache, and entries that wait for the rank index. */
type CacheNumbers = { sizes: Readonly<Record<string, CacheSize>>; ownEntries: number };

/** Metrics of what requests share: transactions, and answers from memory. */
export type SharingMetrics = {
  commits: CommitObserver;
  /** Looks for an answer, or what one is made of, in memory. */
  cacheLookUps: Counter<"cache" | "result">;
  /** Sets how to read what the caches hold at a scrape. */
  watchCaches(read: () => CacheNumbers): void;
};

/** Registers the metrics of shared transactions and of the caches of reads. */
export const sharingMetrics = (registry: Registry): SharingMetrics => ({
  commits: commitMetrics(registry),
  cacheLookUps: new Counter({
    name: "laurel_cache_lookups_total",
    help: "Looks into the caches of reads: pages of leaderboards (answers), and what they are made of; chats",
    labelNames: ["cache", "result"],
    registers: [registry],
  }),
  watchCaches: cacheMetrics(registry),
});

const commitMetrics = (registry: Registry): CommitObserver => {
  const registers = [registry];
  const groups = new Histogram({
    name: "laurel_shared_commit_requests",
    help: "Requests of a shared transaction",
    buckets: GROUP_BUCKETS,
    registers,
  });
  const left = new Counter({
    name: "laurel_shared_commit_left_total",
    help: "Requests that left: alone (others hold the player), next (goes to the next), failed (repeated alone)",
    labelNames: ["how"],
    registers,
  });
  let readWaiting = () => 0;
  registry.registerMetric(
    new Gauge({
      name: "laurel_shared_commit_waiting",
      help: "Requests that wait for a shared transaction",
      registers: [],
      collect() {
        this.set(readWaiting());
      },
    }),
  );
  return {
    began: (requests) => groups.observe(requests),
    left: (how, requests) => left.inc({ how: how.toLowerCase() }, requests),
    watchWaiting: (read) => {
      readWaiting = read;
    },
  };
};

const cacheMetrics = (registry: Registry): SharingMetrics["watchCaches"] => {
  let read: (() => CacheNumbers) | undefined;
  const ofCaches = (name: string, help: string, of: (size: CacheSize) => number): void =>
    registry.registerMetric(
      new Gauge({
        name,
        help,
        labelNames: ["cache"],
        registers: [],
        collect() {
          for (const [cache, size] of Object.entries(read?.().sizes ?? {})) this.set({ cache }, of(size));
        },
      }),
    );
  ofCaches("laurel_cache_items", "Values in a cache of reads", ({ items }) => items);
  ofCaches("laurel_cache_bytes", "Bytes of the values in a cache of reads", ({ bytes }) => bytes);
  registry.registerMetric(
    new Gauge({
      name: "laurel_own_entries",
      help: "Entries of leaderboards that requests of this process have changed and the index may not have",
      registers: [],
      collect() {
        this.set(read?.().ownEntries ?? 0);
      },
    }),
  );
  return (from) => {
    read = from;
  };
};

/** How long sizes of tables are reused, in ms: they need a look at each file of the database. */
const SIZES_KEPT_MS = 60_000;

/** What tables take of the disk. */
export type TableMetrics = {
  /** Sets how to read the sizes of tables at a scrape; it may fail. */
  watchTables(read: () => Promise<TableSize[]>): void;
};

/** Registers the gauge of tables. */
export const tableMetrics = (registry: Registry): TableMetrics => {
  let readTables: (() => Promise<TableSize[]>) | undefined;
  let readUntilMs = -Infinity;
  registry.registerMetric(
    new Gauge({
      name: "laurel_table_bytes",
      help: "Bytes of a table on disk, with its indexes and partitions",
      labelNames: ["table"],
      registers: [],
      async collect() {
        if (!readTables || performance.now() < readUntilMs) return;
        const sizes = await readTables().catch(() => undefined);
        this.reset();
        for (const { table, bytes } of sizes ?? []) this.set({ table }, bytes);
        if (sizes) readUntilMs = performance.now() + SIZES_KEPT_MS;
      },
    }),
  );
  return {
    watchTables: (read) => {
      readTables = read;
    },
  };
};

/** What this process writes for the warehouse, and how long events have waited for it in all processes. */
export type WarehouseMetrics = {
  warehouse: {
    files: Counter<"kind">;
    records: Counter<"kind">;
    bytes: Counter;
    failures: Counter;
    /** Sets how to read the lag at a scrape, in seconds; it may fail. */
    watchLag(read: () => Promise<number>): void;
  };
};

/** Registers the numbers of the warehouse. */
export const warehouseMetrics = (registry: Registry): WarehouseMetrics => {
  const registers = [registry];
  const counted = (name: string, help: string) =>
    new Counter({ name, help, labelNames: ["kind"], registers });
  const counter = (name: string, help: string) => new Counter({ name, help, registers });
  let read: (() => Promise<number>) | undefined;
  registry.registerMetric(
    new Gauge({
      name: "laurel_warehouse_lag_seconds",
      help: "Age of the oldest event that is in no file of the warehouse",
      registers: [],
      async collect() {
        if (read) this.set(await read().catch(() => Number.NaN));
      },
    }),
  );
  return {
    warehouse: {
      files: counted("laurel_warehouse_files_total", "Files written for the warehouse"),
      records: counted("laurel_warehouse_records_total", "Records in files for the warehouse"),
      bytes: counter("laurel_warehouse_bytes_total", "Bytes written for the warehouse"),
      failures: counter(
        "laurel_warehouse_failures_total",
        "Turns that failed, and files of the warehouse that could not be read or removed",
      ),
      watchLag: (from) => {
        read = from;
      },
    },
  };
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

const ATTEMPT_BUCKETS_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const LAG_BUCKETS_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800];

/** Registers the metrics of webhook deliveries. */
export const webhookMetrics = (registry: Registry): WebhookMetrics => {
  const registers = [registry];
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name, help, buckets, registers });
  return {
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
  };
};
