import { sql } from "kysely";
import { createSharedCommits } from "../../../src/domain/kernel/shared-commits.ts";
import { createTransact, NO_WAKE_UPS } from "../../../src/domain/kernel/transact.ts";
import type { Work } from "../../../src/domain/kernel/work.ts";
import type { Database } from "../../../src/platform/database.ts";
import type { Domain } from "./domain.ts";
import { define } from "./rule-projects.ts";

/** Runs a request of a project, which shares transactions with others. */
export type Share = <T>(player: string, run: (work: Work) => Promise<T>, isPlain?: boolean) => Promise<T>;

const onError = (error: unknown): void => {
  throw error;
};

/** A committer over a database, for one project. */
export const openSharing = async ({ em }: Database, domain: Domain, projectId: string) => {
  const { rows } = await domain.transact(({ db }) =>
    sql<{ tenant_id: string }>`select tenant_id from projects where id = ${projectId}`.execute(db),
  );
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
  await domain.transact(({ db }) =>
    sql`update projects set settings = ${JSON.stringify({
      lives: { enabled: true, max: 100, start: 100, refillSeconds: 60 },
    })}::jsonb where id = ${projectId}`.execute(db),
  );
  return projectId;
};
