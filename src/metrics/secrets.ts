import { Gauge, type Registry } from "prom-client";

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
