import { Counter, Gauge, type Registry } from "prom-client";

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
