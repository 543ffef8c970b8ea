import { type RawBuilder, sql } from "kysely";
import { type Total, TOTAL_EXACT_MAX } from "../counting.ts";
import { offsetOf, type PageQuery } from "../paging.ts";
import type { Work } from "../work.ts";

export type AuditQuery = PageQuery & {
  action?: string | undefined;
  actor?: string | undefined;
  /** Inclusive. */
  from?: Date | undefined;
  /** Exclusive. */
  to?: Date | undefined;
};

/** A line of the audit log as the API shows it. */
export type ShownAuditEntry = {
  id: string;
  /** Null for what concerns the platform alone. */
  tenantId: string | null;
  /** `user:<id>`, `key:<id>`, `admin:<id>`, `platform-token:<id>`, `anonymous` or `system`. */
  actor: string;
  action: string;
  target: { type: string; id: string };
  ip: string;
  requestId: string;
  data: Record<string, unknown>;
  createdAt: string;
};

type Row = Omit<ShownAuditEntry, "createdAt" | "target"> & {
  targetType: string;
  targetId: string;
  createdAt: Date;
};

const whereOf = (tenantId: string | undefined, query: AuditQuery): RawBuilder<unknown> => {
  const { action, actor, from, to } = query;
  const parts = [sql`true`];
  if (tenantId !== undefined) parts.push(sql`tenant_id = ${tenantId}::uuid`);
  if (action !== undefined) parts.push(sql`action = ${action}`);
  if (actor !== undefined) parts.push(sql`actor = ${actor}`);
  // By seconds: PostgreSQL does not read every year that toISOString writes.
  if (from) parts.push(sql`created_at >= to_timestamp(${from.getTime() / 1_000}::float8)`);
  if (to) parts.push(sql`created_at < to_timestamp(${to.getTime() / 1_000}::float8)`);
  return sql.join(parts, sql` and `);
};

/** Newest first: of one tenant, or of all with undefined (for super-admins, in their scope). */
export const listAudit = async (
  { db }: Work,
  tenantId: string | undefined,
  query: AuditQuery,
): Promise<Total & { entries: ShownAuditEntry[] }> => {
  const where = whereOf(tenantId, query);
  const { rows } = await sql<Row>`
    select id, tenant_id as "tenantId", actor, action, target_type as "targetType",
      target_id as "targetId", ip, request_id as "requestId", data, created_at as "createdAt"
    from audit_log where ${where} order by created_at desc, id desc
    limit ${query.limit} offset ${offsetOf(query)}`.execute(db);
  const counted = await sql<{ total: number | string }>`
    select count(*) as total
    from (select 1 from audit_log where ${where} limit ${TOTAL_EXACT_MAX + 1}) as counted`.execute(db);
  const total = Number(counted.rows[0]?.total ?? 0);
  const isEstimated = total > TOTAL_EXACT_MAX;
  return { entries: rows.map(show), total: Math.min(total, TOTAL_EXACT_MAX), isEstimated };
};

const show = ({ targetType, targetId, createdAt, ...rest }: Row): ShownAuditEntry => ({
  ...rest,
  target: { type: targetType, id: targetId },
  createdAt: new Date(createdAt).toISOString(),
});
