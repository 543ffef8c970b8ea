import { type RawBuilder, sql } from "kysely";
import { countRows, type Work } from "../../kernel/work.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { orderBy, type Ordered, type SortOf } from "../../kernel/sorting.ts";

/** Orders of the list. */
export const AUDIT_ORDERS = { by: { createdAt: sql`created_at` }, usual: "desc" } as const;

export type AuditQuery = PageQuery &
  Ordered<SortOf<typeof AUDIT_ORDERS>> & {
    action?: string | undefined;
    actor?: string | undefined;
    /** Inclusive. */
    from?: Date | undefined;
    /** Exclusive. */
    to?: Date | undefined;
  };

type Row = {
  id: string;
  /** Null for entries about the platform alone. */
  tenantId: string | null;
  /** `user`, `key`, `admin`, `platform-token` or `scim-token` with `:<id>`; or `anonymous`, `system`. */
  actor: string;
  action: string;
  targetType: string;
  targetId: string;
  ip: string;
  requestId: string;
  data: Record<string, unknown>;
  createdAt: Date;
};

const whereOf = (tenantId: string | undefined, query: AuditQuery): RawBuilder<unknown> => {
  const { action, actor, from, to } = query;
  const parts = [sql`true`];
  if (tenantId !== undefined) parts.push(sql`tenant_id = ${tenantId}::uuid`);
  if (action !== undefined) parts.push(sql`action = ${action}`);
  if (actor !== undefined) parts.push(sql`actor = ${actor}`);
  if (from) parts.push(sql`created_at >= ${from.toISOString()}::timestamptz`);
  if (to) parts.push(sql`created_at < ${to.toISOString()}::timestamptz`);
  return sql.join(parts, sql` and `);
};

/**
 * Returns entries, newest first: of one tenant, or with undefined of all (for super-admins, in their scope).
 */
export const listAudit = async (work: Work, tenantId: string | undefined, query: AuditQuery) => {
  const where = whereOf(tenantId, query);
  // The addresses of the platform's operators are hidden from tenants.
  const ip =
    tenantId === undefined ? sql`ip` : sql`case when actor ~ '^(admin|platform-token):' then '' else ip end`;
  const { rows } = await sql<Row>`
    select id, tenant_id as "tenantId", actor, action, target_type as "targetType",
      target_id as "targetId", ${ip} as ip, request_id as "requestId", data, created_at as "createdAt"
    from audit_log where ${where} order by ${orderBy(AUDIT_ORDERS, query, sql`id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { entries: rows.map(show), ...(await countRows(work, sql`audit_log where ${where}`)) };
};

const show = ({ targetType, targetId, createdAt, ...rest }: Row) => ({
  ...rest,
  target: { type: targetType, id: targetId },
  createdAt: new Date(createdAt).toISOString(),
});
