import { z } from "zod";
import { ADMINS } from "../../domain/access.ts";
import { listAudit } from "../../domain/audit/list.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/paging.ts";
import { Reply, route } from "../route.ts";
import { userOf } from "./team-bodies.ts";

export const AuditQuery = PageQuery.extend({
  action: z.string().min(1).max(100).optional().meta({ example: "member.role_changed" }),
  from: z.iso.datetime({ offset: true }).optional().meta({ description: "Inclusive" }),
  to: z.iso.datetime({ offset: true }).optional().meta({ description: "Exclusive" }),
});

export const AuditEntryBody = z
  .object({
    id: z.uuid(),
    tenantId: z.uuid().nullable(),
    actor: z.string().meta({ description: "user:<id>, key:<id>, admin:<id>, anonymous or system" }),
    action: z.string().meta({ example: "member.role_changed" }),
    target: z.object({ type: z.string(), id: z.string() }),
    ip: z.string().meta({ description: 'Empty for "system"' }),
    requestId: z.string(),
    data: z.record(z.string(), z.unknown()),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "AuditEntry" });

/** The times of a query as dates. */
export const auditQueryOf = ({ from, to, ...query }: z.output<typeof AuditQuery>) => ({
  ...query,
  from: from === undefined ? undefined : new Date(from),
  to: to === undefined ? undefined : new Date(to),
});

export const auditLogRoutes = [
  route({
    method: "get",
    path: "/audit-log",
    id: "listAuditLog",
    tag: "Tenant",
    summary: "List what was done in the tenant",
    description: "Newest first; entries are never changed or deleted.",
    access: { roles: ADMINS },
    project: "none",
    query: AuditQuery,
    response: pageBody(AuditEntryBody),
    run: (app, { caller, query }) =>
      app.transact(async (work) => {
        const found = await listAudit(work, userOf(caller).tenantId, auditQueryOf(query));
        const headers: Record<string, string> = found.isEstimated ? { "X-Total-Estimated": "true" } : {};
        return new Reply(200, pageOf(found.entries, found.total, query), headers);
      }),
  }),
];
