import { Gauge, type Registry } from "prom-client";
import type { Overdue } from "../domain/accounts/domains/certificate-notices.ts";

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
  const overdueHelp = "Certificates of custom domains whose renewal has been due for an hour";
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
