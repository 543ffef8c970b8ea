import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Config } from "./config.ts";
import {
  certificateMetrics,
  queueMetrics,
  realtimeMetrics,
  secretMetrics,
  sharingMetrics,
  tableMetrics,
  warehouseMetrics,
  webhookMetrics,
} from "./metrics/gauges.ts";

/** Interval between two samples of the event loop's delay, in ms. */
const LOOP_SAMPLE_MS = 100;
const HTTP_BUCKETS_SECONDS = [0.005, 0.025, 0.1, 0.25, 1, 2.5];

/** Metrics of this process; `registry` renders them in the Prometheus format. */
export type Metrics = ReturnType<typeof createMetrics>;

type Build = Pick<Config, "version" | "mode" | "roles">;

const showBuild = (registry: Registry, build: Build | undefined): void => {
  const info = new Gauge({
    name: "laurel_build_info",
    help: "1, with what this process is",
    labelNames: ["version", "node", "mode", "roles"],
    registers: [registry],
  });
  if (!build) return;
  const { version, mode, roles } = build;
  info.set({ version, node: process.version, mode, roles: [...roles].toSorted().join(",") }, 1);
};

const httpMetrics = (registry: Registry) => {
  const registers = [registry];
  return {
    httpDuration: new Histogram({
      name: "laurel_http_request_duration_seconds",
      help: "Time from a request's headers to the end of its answer",
      labelNames: ["group", "status"],
      buckets: HTTP_BUCKETS_SECONDS,
      registers,
    }),
    httpRequests: new Counter({
      name: "laurel_http_requests_total",
      help: "Requests that were answered, or whose client has gone before (4xx)",
      labelNames: ["method", "route", "status"],
      registers,
    }),
    requestsRefused: new Counter({
      name: "laurel_requests_refused_total",
      help: "Requests refused by a limit (RATE_LIMITED), or by load or an outage (SERVICE_UNAVAILABLE)",
      labelNames: ["code", "reason"],
      registers,
    }),
  } as const;
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
  const registers = [registry];
  // Each sample of the loop's delay wakes the process, which is most of an idle process's CPU time.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOP_SAMPLE_MS });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  showBuild(registry, build);
  const counter = (name: string, help: string) => new Counter({ name, help, registers });
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
