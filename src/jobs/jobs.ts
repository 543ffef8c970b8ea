import type { Job } from "./job.ts";
import { partitions } from "./partitions.ts";
import { processEvents } from "./process-events.ts";
import { relayOutbox } from "./relay-outbox.ts";
import { sweep } from "./sweep.ts";

/** Every job a worker runs. */
export const jobs: readonly Job[] = [processEvents, relayOutbox, sweep, partitions];
