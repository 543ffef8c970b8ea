import { type RawBuilder, sql } from "kysely";
import { type Actor, actorOf } from "../../kernel/caller.ts";
import { newId } from "../../kernel/ids.ts";
import { unanswered } from "../../kernel/statements.ts";
import { together } from "../../kernel/together.ts";
import { countRows, type Work } from "../../kernel/work.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";

type AuditTarget = { type: string; id: string };
type AuditEntry = {
  /** `noun.past_tense`, such as `tenant.suspended`. */
  action: string;
  target: AuditTarget;
  /** The tenant whose log shows it; null for the platform alone. */
  tenantId: string | null;
  /** The changes, without secrets. */
  data?: Record<string, unknown>;
};

/** What an entry of a tenant's log about the tenant itself has. */
export const ofTenant = (tenantId: string) => ({ target: { type: "tenant", id: tenantId }, tenantId });

/** What an entry of a tenant's log about one of its users has. */
export const ofUser = ({ id, tenantId }: { id: string; tenantId: string }) => ({
  target: { type: "user", id },
  tenantId,
});

/** Maximum rows of one statement. */
const ROWS_MAX = 500;

/** Records an action in the commit that performs it. Rows are never changed or deleted. */
export const audit = (work: Work, entry: AuditEntry): Promise<void> => auditAll(work, [entry]);

/** As `audit`, for many actions: one statement for every 500. */
export const auditAll = (work: Work, entries: readonly AuditEntry[]): Promise<void> =>
  writeActs(work, { by: work.by, entries });

/** What one request has done. */
type Acts = { by: Actor | undefined; entries: readonly AuditEntry[] };

const writeActs = together({
  phase: "WRITES",
  isWrite: true,
  run: async (work, acts: readonly Acts[]) => {
    const rows = acts.flatMap(rowsOf);
    for (let i = 0; i < rows.length; i += ROWS_MAX) await insertRows(work, rows.slice(i, i + ROWS_MAX));
    return acts.map((): { value: void } => ({ value: undefined }));
  },
});

const rowsOf = ({ by, entries }: Acts) => {
  const of = {
    actor: by ? actorOf(by.caller) : "system",
    address: by?.ip ?? "",
    request: by?.requestId ?? "",
  };
  return entries.map(({ action, target, tenantId, data = {} }) => {
    return { ...of, id: newId(), tenant: tenantId, action, type: target.type, target: target.id, data };
  });
};

const insertRows = ({ db, serverNow: now }: Work, rows: readonly object[]): Promise<void> =>
  unanswered(
    db,
    sql`
    insert into audit_log
      (id, tenant_id, actor, action, target_type, target_id, ip, request_id, data, created_at)
    select id, tenant, actor, action, type, target, address, request, data, ${now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(id uuid, tenant uuid, actor text,
      action text, type text, target text, address text, request text, data jsonb)`,
  );

type Definition = { projectId: string; id: string; key?: string };

/** An action on a definition, such as `badge.created`. */
export type DefinitionChange = { action: string; definition: Definition };

/**
 * Records a change of a project's definition in the log of its tenant. Changes by the server itself (the
 * demo) have no author and are not recorded.
 */
export const auditDefinition = (work: Work, action: string, definition: Definition): Promise<void> =>
  auditDefinitions(work, [{ action, definition }]);

/** As `auditDefinition`, for many changes in a few statements. */
export const auditDefinitions = async (work: Work, changes: readonly DefinitionChange[]): Promise<void> => {
  const caller = work.by?.caller;
  if (caller?.kind !== "user" && caller?.kind !== "key") return;
  const { tenantId } = caller;
  const entries = changes.map(({ action, definition: { projectId, id, key } }) => {
    const data = { projectId, ...(key === undefined ? {} : { key }) };
    return { action, target: { type: action.split(".", 1)[0]!, id }, tenantId, data };
  });
  await auditAll(work, entries);
};

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
  /** `user`, `key`, `admin` or `platform-token` with `:<id>`; or `anonymous`, `system`. */
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
  createdAt: createdAt.toISOString(),
});
