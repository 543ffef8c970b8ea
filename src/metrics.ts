import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";

const HTTP_BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** What this process counts; `registry` holds it in the Prometheus form. */
export type Metrics = {
  registry: Registry;
  /** Seconds, by method, route (the template, never the address) and status. */
  httpDuration: Histogram<"method" | "route" | "status">;
  eventsAccepted: Counter;
  eventsRejected: Counter;
  eventsSkipped: Counter;
  eventsProcessed: Counter;
  batches: Counter;
  outboxRelayed: Counter;
  mailsSent: Counter;
  mailsFailed: Counter;
  /** Tells what to ask for the gauges of open rooms and connections when they are scraped. */
  watchRooms(read: () => { rooms: number; clients: number }): void;
};

/** A registry of its own for each process part, so that two servers in one test do not meet. */
export const createMetrics = (): Metrics => {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const counter = (name: string, help: string) => new Counter({ name, help, registers });
  let readRooms = () => ({ rooms: 0, clients: 0 });
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
  gauge("laurel_rooms", "Open rooms", () => readRooms().rooms);
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
    watchRooms: (read) => {
      readRooms = read;
    },
  };
};
