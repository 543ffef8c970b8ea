import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { CacheSize } from "../domain/kernel/sized-cache.ts";
import type { CommitObserver } from "../domain/kernel/shared-commits.ts";

const GROUP_BUCKETS = [1, 2, 4, 8, 16, 32, 64];

/** What the caches of reads hold, by cache, and entries that wait for the rank index. */
export type CacheNumbers = { sizes: Readonly<Record<string, CacheSize>>; ownEntries: number };

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
    help: "Looks into the caches of reads: answers kept for a moment, and what they are made of",
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
    help: "Requests that have left their shared transaction",
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
