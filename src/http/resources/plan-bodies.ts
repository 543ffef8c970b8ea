import { z } from "zod";

const Limit = z.int().nullable().meta({ description: "null: no limit" });

/** The limits of a plan, or of a tenant. */
export const LimitsBody = z.object({
  requestsPerMinute: Limit.meta({ description: "Of API keys, for each project; null: no limit" }),
  eventsPerMonth: Limit.meta({ description: "Of all projects and sandboxes; months are those of UTC" }),
  activePlayersPerMonth: Limit,
  projects: Limit,
  members: Limit.meta({ description: "Members and pending invitations; null: no limit" }),
  activeKeysPerProject: Limit,
  webhooks: Limit,
  customDomains: Limit,
  analyticsHistoryDays: Limit,
  deliveryLogDays: Limit,
  activityDays: Limit,
  executionsDays: Limit,
});
