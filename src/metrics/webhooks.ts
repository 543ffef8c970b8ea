import { Counter, Gauge, Histogram, type Registry } from "prom-client";

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
