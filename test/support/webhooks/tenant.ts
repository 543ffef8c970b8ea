import assert from "node:assert/strict";
import { sql } from "kysely";
import type { Tenant, TestApp } from "../app/app.ts";
import { must } from "../http/client.ts";
import { eventually } from "../eventually.ts";
import type { Received } from "./receiver.ts";

/** A delivery as the database has it. */
export type StoredHook = {
  type: string;
  status: string;
  error: string | null;
  attempts: number;
  log: { responseBody: string | null; error: string | null }[];
  /** What is kept of the event. */
  body: string | null;
};

export type Payload = { id: string; type: string; projectId: string; data: Record<string, unknown> };

/** What a receiver was sent. */
export const payloadsOf = (received: readonly Received[]): Payload[] =>
  received.map(({ body }) => JSON.parse(body.toString()) as Payload);

/** Webhooks of a tenant, by its API. */
export const hooksOf = (api: TestApp, { token }: Tenant) => ({
  add: async (url: string, more: object = {}): Promise<string> =>
    must(await api.post("/api/v1/webhooks", { url, events: ["*"], ...more }, { token }), 201).id as string,
  change: async (id: string, change: object): Promise<void> =>
    void must(await api.patch(`/api/v1/webhooks/${id}`, change, { token }), 200),
  stored: async (id: string): Promise<StoredHook[]> => {
    const { rows } = await api.app.transact(({ db }) =>
      sql<StoredHook>`
        select d.event_type as type, d.status, d.error, d.attempts, d.log, e.body from webhook_deliveries d
        left join webhook_events e on e.project_id = d.project_id and e.seq = d.event_seq
        where d.webhook_id = ${id} order by d.event_seq`.execute(db),
    );
    return rows;
  },
  /** Makes whatever waits for its next attempt due at once. */
  hurry: async (id: string): Promise<void> => {
    await api.app.transact(async (work) => {
      await sql`
        update webhook_deliveries set due_at = ${work.now.toISOString()}::timestamptz
        where webhook_id = ${id} and status = 'pending'`.execute(work.db);
      work.wakeWebhooks([id]);
    });
  },
});

/** Waits until everything that was committed is relayed. */
export const relayed = (api: TestApp): Promise<true> =>
  eventually(
    async () => {
      const { rows } = await api.app.transact(({ db }) =>
        sql<{ n: string }>`select count(*) as n from outbox_q`.execute(db),
      );
      return Number(rows[0]!.n) === 0;
    },
    { timeoutMs: 60_000 },
  );

/** Of the type, the newest. */
export const lastOf = (all: readonly StoredHook[], type: string): StoredHook => {
  const found = all.findLast((one) => one.type === type);
  assert.ok(found, `no delivery of ${type}`);
  return found;
};
