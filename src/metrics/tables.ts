import { Gauge, type Registry } from "prom-client";
import type { TableSize } from "../domain/kernel/table-sizes.ts";

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
