import type { App } from "../../../src/app.ts";
import { createStatsRecorder } from "../../../src/domain/evaluation/running/stats.ts";
import type { Transact } from "../../../src/domain/kernel/work.ts";
import { createEventTypeRecorder } from "../../../src/domain/tracking/event-type-recorder.ts";
import { createLog } from "../../../src/log.ts";
import { createMetrics } from "../../../src/metrics.ts";
import type { Domain } from "./domain.ts";

/** What the job that processes events knows of its process. */
export const workerApp = ({ topics }: Domain, transact: Transact): App =>
  ({
    transact,
    clock: () => new Date(),
    log: createLog({ logLevel: "silent" }),
    metrics: createMetrics(),
    topics,
    ruleStats: createStatsRecorder(),
    eventTypes: createEventTypeRecorder(),
    queue: { wakeHere: () => undefined },
    limits: { claimEvents: 100, claimTogether: 100 },
  }) as unknown as App;
