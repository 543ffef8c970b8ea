import { randomUUID } from "node:crypto";
import { newId } from "../../src/domain/kernel/ids.ts";
import { createSecretBox } from "../../src/domain/kernel/secret-box.ts";
import type { Pool } from "./box.ts";

export const ENCRYPTION_KEY = "encryption-key-of-the-benchmarks-and-of-nothing-else";
const box = createSecretBox([ENCRYPTION_KEY]);

export type HookSite = { tenantId: string; projectId: string };

/** A tenant that may have webhooks, and its project. */
export const addHookSite = async (pool: Pool): Promise<HookSite> => {
  const site = { tenantId: randomUUID(), projectId: randomUUID() };
  await pool.query(
    `insert into tenants (id, name, approval_status, plan, created_at, updated_at)
    values ($1, 'Bench', 'APPROVED', 'ENTERPRISE', now(), now())`,
    [site.tenantId],
  );
  await pool.query(
    `insert into projects (id, tenant_id, name, created_at, updated_at)
    values ($2, $1, 'Bench', now(), now())`,
    [site.tenantId, site.projectId],
  );
  return site;
};

export const addWebhooks = async (
  pool: Pool,
  { tenantId, projectId }: HookSite,
  urls: readonly string[],
): Promise<string[]> => {
  const ids = urls.map(() => newId());
  for (const [i, url] of urls.entries())
    await pool.query(
      `insert into webhooks (id, tenant_id, project_id, url, events, status, secret, secret_hint, created_at,
        updated_at)
      values ($1, $2, $3, $4, '{custom.nothing}', 'ACTIVE', $5, 'abcd', now(), now())`,
      [ids[i], tenantId, projectId, url, box.seal(`whsec_${"QUJDRA".repeat(6)}`, ids[i]!)],
    );
  return ids;
};

/** Puts so many deliveries before the webhooks, in turn, due now; each event is one webhook's. */
export const addDeliveries = async (
  pool: Pool,
  { tenantId, projectId }: HookSite,
  { webhooks, count, body }: { webhooks: readonly string[]; count: number; body: string },
): Promise<void> => {
  const { rows } = await pool.query(
    `insert into webhook_feeds (project_id, tenant_id, last_seq) values ($1, $2, $3::bigint)
    on conflict (project_id) do update set last_seq = webhook_feeds.last_seq + excluded.last_seq
    returning last_seq - $3::bigint as first`,
    [projectId, tenantId, count],
  );
  await pool.query(
    `with e as (
      insert into webhook_events (project_id, seq, tenant_id, id, type, body, created_at, expires_at)
      select $1, $3::bigint + n, $2, gen_random_uuid(), 'custom.nothing', $4, now(), now() + interval '1 day'
      from generate_series(1, $5::int) as n
      returning seq, id)
    insert into webhook_deliveries (webhook_id, id, tenant_id, project_id, event_seq, event_id, event_type,
      status, due_at, next_attempt_at, created_at, updated_at, expires_at)
    select ($6::uuid[])[1 + e.seq % array_length($6::uuid[], 1)], gen_random_uuid(), $2, $1, e.seq, e.id,
      'custom.nothing', 'pending', now(), now(), now(), now(), now() + interval '1 day'
    from e`,
    [projectId, tenantId, rows[0]!["first"], body, count, `{${webhooks.join(",")}}`],
  );
  await pool.query("analyze webhook_deliveries");
};

/** How many deliveries of webhooks are not over, and how many have exactly one success in their log. */
export const countDeliveries = async (
  pool: Pool,
  webhooks: readonly string[],
): Promise<{ pending: number; logged: number }> => {
  const { rows } = await pool.query(
    `select count(*) filter (where status = 'pending') as pending,
      count(*) filter (where status = 'success' and jsonb_array_length(log) = 1
        and (log->0->>'responseCode')::int = 200) as logged
    from webhook_deliveries where webhook_id = any($1::uuid[])`,
    [`{${webhooks.join(",")}}`],
  );
  return { pending: Number(rows[0]!["pending"]), logged: Number(rows[0]!["logged"]) };
};

/** Puts committed events into the outbox, `size` in a commit's row, of players in turn. */
export const addOutbox = async (
  pool: Pool,
  { projectId }: HookSite,
  { rows, size }: { rows: number; size: number },
): Promise<void> => {
  const chunk = 50_000;
  for (let at = 0; at < rows; at += chunk) {
    await pool.query(
      `with o as (
        insert into outbox (project_id, id, type, data, bytes, created_at)
        select $1, gen_random_uuid(), 'custom.backlog', d.data, octet_length(d.data::text), now()
        from generate_series(1, $2::int) n
        cross join lateral (
          select jsonb_build_object('n', n, 'text', repeat('x', 200)) as data) d
        returning id),
      numbered as (select id, row_number() over () as n from o)
      insert into outbox_q (project_id, part, outbox_ids)
      select $1, ((n / $3::int) % 8)::smallint, array_agg(id) from numbered group by n / $3::int`,
      [projectId, Math.min(chunk, rows - at), size],
    );
  }
};
