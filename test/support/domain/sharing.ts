import { createSharedCommits } from "../../../src/domain/kernel/shared-commits.ts";
import { createTransact, NO_WAKE_UPS } from "../../../src/domain/kernel/transact.ts";
import type { Transact, Work } from "../../../src/domain/kernel/work.ts";
import type { Database } from "../../../src/platform/database.ts";
import { define, type Domain } from "./domain.ts";
import { eventually } from "../eventually.ts";
import type { App } from "../../../src/app.ts";
import { createStatsRecorder } from "../../../src/domain/evaluation/running/stats.ts";
import { createEventTypeRecorder } from "../../../src/domain/tracking/event-type-recorder.ts";
import { createLog } from "../../../src/log.ts";
import { createMetrics } from "../../../src/metrics.ts";

/** Runs a request of a project, which shares transactions with others. */
export type Share = <T>(player: string, run: (work: Work) => Promise<T>, isPlain?: boolean) => Promise<T>;

const onError = (error: unknown): void => {
  throw error;
};

/** A committer over a database, for one project. */
export const openSharing = async ({ em }: Database, domain: Domain, projectId: string) => {
  const rows = await domain.sql<{ tenant_id: string }>`
    select tenant_id from projects where id = ${projectId}`;
  const scope = { role: "web", tenantId: rows[0]!.tenant_id, projectIds: [projectId] } as const;
  const parts = { em, clock: () => new Date(), wakeUps: NO_WAKE_UPS, onError };
  const transactAs = (rowScope: Parameters<typeof createTransact>[1]) => createTransact(parts, rowScope);
  const shared = createSharedCommits({ waitMaxMs: 30_000, transactAs });
  const share: Share = (player, run, isPlain = true) => shared(scope, { player, isPlain })(run);
  return { share, tenantId: scope.tenantId, alone: transactAs(scope) };
};

/** Makes a project with what the changes below need. */
export const aProjectOfChanges = async (domain: Domain): Promise<string> => {
  const projectId = await domain.addProject();
  await define(domain, projectId, "currency", { key: "coins", name: "Coins", initialBalance: 100 });
  await define(domain, projectId, "badge", { key: "fan", name: "Fan", repeatable: true });
  await define(domain, projectId, "reward", {
    key: "chest",
    name: "Chest",
    kind: "BUNDLE",
    bundle: { xp: 3 },
  });
  await define(domain, projectId, "streak", {
    key: "daily",
    name: "Daily",
    qualify: {
      mode: "ALL",
      parts: [{ metric: { eventTypes: ["login"], aggregate: "count" }, threshold: 1 }],
    },
    freeze: { max: 3 },
  });
  await domain.addBoard(projectId, {
    key: "best",
    name: "Best",
    operator: "BEST",
    metric: { source: "CUSTOM" },
  });
  await domain.sql`update projects set settings = ${JSON.stringify({
    lives: { enabled: true, max: 100, start: 100, refillSeconds: 60 },
  })}::jsonb where id = ${projectId}`;
  return projectId;
};

/** Runs `run` while another transaction has done `take` and is not over. */
export const whileTaken = async (
  transact: Transact,
  take: (work: Work) => Promise<unknown>,
  run: () => Promise<void>,
): Promise<void> => {
  const released = Promise.withResolvers<void>();
  let isHeld = false;
  const holder = transact(async (work) => {
    await take(work);
    isHeld = true;
    await released.promise;
  });
  try {
    await Promise.race([holder, eventually(() => isHeld)]);
    await run();
  } finally {
    released.resolve();
    await holder;
  }
};

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
