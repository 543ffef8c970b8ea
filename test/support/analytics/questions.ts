import { sql } from "kysely";
import { newId } from "../../../src/domain/kernel/ids.ts";
import { type Answer, aTenant, type Tenant, type TestApp } from "../app/app.ts";
import { putOnPlan } from "../app/plans.ts";
import { storePastEvents } from "../data/past-events.ts";
import type { Line } from "../data/travel.ts";
import { must } from "../http/client.ts";

/** An event of the past: of whom, which, when, with what. */
export type Past = readonly [user: string, eventType: string, timestamp: string, properties?: object];

/** A tenant with all of its past, who asks questions of analytics. */
export type Asker = {
  tenant: Tenant;
  /** The answer's body; it must be 200. */
  ask(question: string, query?: Record<string, string>): Promise<Answer["body"]>;
  /** The answer, whatever it is. */
  tryAsk(question: string, query?: Record<string, string>, headers?: Record<string, string>): Promise<Answer>;
  /** Stores events as if they had come and been processed in this order. */
  store(events: readonly Past[]): Promise<void>;
};

const lineOf = ([externalUserId, eventType, timestamp, properties = {}]: Past): Line => ({
  externalUserId,
  eventType,
  timestamp,
  properties: properties as Record<string, unknown>,
  idempotencyKey: newId(),
});

export const anAsker = async (api: TestApp): Promise<Asker> => {
  const tenant = await aTenant(api);
  await putOnPlan(api, tenant.tenantId, "ENTERPRISE", { analyticsHistoryDays: null });
  const tryAsk: Asker["tryAsk"] = (question, query = {}, headers = {}) =>
    api.get(`/api/v1/analytics/${question}?${new URLSearchParams(query).toString()}`, {
      key: tenant.key,
      headers,
    });
  return {
    tenant,
    tryAsk,
    ask: async (question, query) => must(await tryAsk(question, query), 200),
    store: (events) => storePastEvents(api, tenant.projectId, events.map(lineOf)),
  };
};

/** Marks the event of a player as one that has failed, was rejected or was reverted. */
export const markEvent = async (
  { app }: TestApp,
  { projectId }: Tenant,
  user: string,
  status: "FAILED" | "REJECTED" | "REVERTED",
): Promise<void> => {
  await app.transact(({ db }) =>
    sql`
      insert into event_results (project_id, event_id, status, error, attempts, processed_at)
      select project_id, id, ${status}, 'test', 1, now() from tracked_events
      where project_id = ${projectId}::uuid and external_user_id = ${user}`.execute(db),
  );
};
