import { z } from "zod";
import { ADMINS, userOf } from "../../domain/kernel/caller.ts";
import { listAudit, AUDIT_ORDERS } from "../../domain/accounts/audit/list.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { group } from "../route.ts";
import { pageReply, Span, sortedBy } from "./list-bodies.ts";

const ACTORS = "user:<id>, key:<id>, admin:<id>, platform-token:<id>, scim-token:<id>, anonymous or system";

const ACTOR_MAX = 100;

export const AuditQuery = PageQuery.extend({
  ...sortedBy(AUDIT_ORDERS),
  action: z.string().min(1).max(100).optional().meta({ example: "member.role_changed" }),
  actor: z.string().min(1).max(ACTOR_MAX).optional().meta({ description: ACTORS }),
  ...Span.shape,
});

export const AuditEntryBody = z
  .object({
    id: z.uuid(),
    tenantId: z.uuid().nullable(),
    actor: z.string().meta({ description: ACTORS }),
    action: z.string().meta({ example: "member.role_changed" }),
    target: z.object({ type: z.string(), id: z.string() }),
    ip: z.string().meta({ description: "Empty for the server itself, and for the platform's people" }),
    requestId: z.string(),
    data: z.record(z.string(), z.unknown()),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "AuditEntry" });

const byAdmins = group({ tag: "Tenant", project: "none", access: { roles: ADMINS } });

export const auditLogRoutes = [
  byAdmins.get("/audit-log", "listAuditLog", {
    summary: "List the tenant's audit log",
    description: "Newest first; entries are never changed or deleted.",
    query: AuditQuery,
    response: pageBody(AuditEntryBody),
    run: async (work, { caller, query }) => {
      const { entries, ...total } = await listAudit(work, userOf(caller).tenantId, query);
      return pageReply(entries, total, query);
    },
  }),
];
