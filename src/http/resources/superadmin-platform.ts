import { z } from "zod";
import { platformStats, STATS_COUNT_MAX } from "../../domain/accounts/admin/stats.ts";
import { listAudit } from "../../domain/accounts/audit/list.ts";
import { pageBody } from "../../domain/kernel/paging.ts";
import { APPROVAL_STATUSES, PLANS } from "../../domain/kernel/caller.ts";

import { AuditEntryBody, AuditQuery } from "./audit-log.ts";
import { pageReply } from "./list-bodies.ts";
import { PEOPLE, superadmin } from "./superadmin-bodies.ts";

const counts = <K extends string>(names: readonly K[]) =>
  z.object(Object.fromEntries(names.map((name) => [name, z.int()])) as Record<K, z.ZodInt>);

const StatsBody = z
  .object({
    tenants: z.object({
      total: z.int(),
      byApprovalStatus: counts(APPROVAL_STATUSES),
      byPlan: counts(PLANS),
    }),
    users: z.int(),
    projects: z.int().meta({ description: "Without sandboxes" }),
    activeKeys: z.int(),
    mail: z.object({
      queued: z.int().meta({ description: "Not yet sent" }),
      failedLastDay: z.int().meta({ description: "Given up, of those asked for in 24 hours" }),
    }),
    generatedAt: z.iso.datetime(),
  })
  .meta({ id: "PlatformStats" });

export const superadminPlatformRoutes = [
  superadmin.get("/superadmin/stats", "getPlatformStats", {
    summary: "Count the platform's tenants, users and data",
    description: `Without what is deleted. A count stops at ${STATS_COUNT_MAX}.`,
    access: PEOPLE,
    response: StatsBody,
    run: (work) => platformStats(work),
  }),
  superadmin.get("/superadmin/audit-log", "listPlatformAuditLog", {
    summary: "List the audit log of all tenants and the platform",
    description: "Newest first; entries are never changed or deleted.",
    access: PEOPLE,
    query: AuditQuery.extend({
      tenantId: z.uuid().optional(),
    }),
    response: pageBody(AuditEntryBody),
    run: async (work, { query: { tenantId, ...query } }) => {
      const { entries, ...total } = await listAudit(work, tenantId, query);
      return pageReply(entries, total, query);
    },
  }),
];
