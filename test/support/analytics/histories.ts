import { randomUUID } from "node:crypto";
import { must } from "../http/client.ts";
import { type Answer, aTenant, startApp, type Tenant, type TestApp } from "../app/app.ts";
import { putOnPlan } from "../app/plans.ts";
import { allProcessed } from "../app/processed.ts";
import { madeForEach, madeOnce } from "../made.ts";

/** An event of a hand-made history: who, what, when, and with which properties. */
export type Happening = readonly [
  user: string,
  eventType: string,
  at: string | number,
  properties?: Record<string, unknown>,
];

/** A tenant whose plan shows analytics of all time. */
export const aTenantOfAllTime = async (api: TestApp): Promise<Tenant> => {
  const tenant = await aTenant(api);
  await putOnPlan(api, tenant.tenantId, "ENTERPRISE", { analyticsHistoryDays: null });
  return tenant;
};

const BATCH = 1_000;

type EventBody = { externalUserId: string; eventType: string; timestamp: string };

/** Sends events in batches, in the order given, and waits until they are processed. Returns their ids. */
export const sendEvents = async (
  api: TestApp,
  { key }: Pick<Tenant, "key">,
  events: readonly EventBody[],
  timeoutMs = 60_000,
): Promise<string[]> => {
  const ids: string[] = [];
  for (let from = 0; from < events.length; from += BATCH) {
    const body = { events: events.slice(from, from + BATCH) };
    const { results } = must(await api.post("/api/v1/events/batch", body, { key }), 200);
    ids.push(...results.map((one: { eventId: string }) => one.eventId));
  }
  await allProcessed(api, { key }, timeoutMs);
  return ids;
};

/** Tracks a hand-made history in the order given. Returns the ids of its events. */
export const track = (
  api: TestApp,
  tenant: Pick<Tenant, "key">,
  history: readonly Happening[],
): Promise<string[]> =>
  sendEvents(
    api,
    tenant,
    history.map(([externalUserId, eventType, at, properties = {}]) => ({
      externalUserId,
      eventType,
      properties,
      timestamp: new Date(at).toISOString(),
      idempotencyKey: randomUUID(),
    })),
  );

/** A tenant of each test's own, whose hand-made history one question of analytics is asked about. */
export const historiesAskedBy = (question: string) => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenantOfAllTime(api));
  const path = `/api/v1/analytics/${question}`;
  const get = (query: string): Promise<Answer> => api.get(`${path}?${query}`, { key: tenant.key });
  return {
    api,
    tenant,
    /** Tracks the history. Returns the ids of its events. */
    given: (...history: Happening[]): Promise<string[]> => track(api, tenant, history),
    get,
    ask: async (query: string): Promise<Answer["body"]> => must(await get(query), 200),
    /** The question with a body. */
    post: (body: object): Promise<Answer> => api.post(path, body, { key: tenant.key }),
  };
};

/** Steps of a funnel, by types of events. */
export const stepsOf = (...types: string[]) => types.map((eventType) => ({ eventType }));

/** How many players come to each step of a funnel's answer. */
export const playersAt = ({ steps }: Answer["body"]): number[] =>
  steps.map(({ players }: { players: number }) => players);

/** Retention as it is answered. */
export type Cell = { offset: number; until?: number; players: number; rate: number; complete: boolean };
export type Cohort = { period: string; size: number; cells: Cell[] };
