import { z } from "zod";
import { type Plan, PLAN_LIMITS, type PlanLimits, PLANS } from "../../domain/kernel/caller.ts";
import {
  ACCOUNT_LIMITS,
  ANALYTICS_LIMITS,
  DEFINITION_LIMITS,
  DOMAIN_LIMITS,
  EVENT_LIMITS,
  GENERAL_LIMITS,
  LEADERBOARD_LIMITS,
  PLAYER_LIMITS,
} from "../listed-limits/definitions.ts";
import { Limit, limit } from "../listed-limits/limit.ts";
import { RATE_LIMITS } from "../listed-limits/rates.ts";
import { SCIM_LIMITS } from "../listed-limits/scim.ts";
import { CHAT_LIMITS, LOBBY_LIMITS, LOBBY_ROOM_LIMITS } from "../listed-limits/social.ts";
import { group } from "../route.ts";

/** Numeric limits of a plan; a missing one means unlimited. */
const PLAN_TEXTS: Readonly<Record<keyof PlanLimits, string>> = {
  requestsPerMinute: "requests by all API keys of a project in a minute",
  eventsPerMonth:
    "events of all projects and sandboxes in a calendar month in UTC; paid plans take 120 percent",
  activePlayersPerMonth: "players with an event in a calendar month in UTC; more are played on",
  projects: "projects of the tenant; sandboxes do not count",
  members: "members of the tenant and pending invitations",
  activeKeysPerProject: "active API keys of a project",
  webhooks: "webhooks of the tenant",
  customDomains: "custom domains of the tenant",
  analyticsHistoryDays: "days that analytics reach back",
  deliveryLogDays: "days that deliveries of webhooks are kept",
  activityDays: "days that a project may keep its players' streams (settings.activityDays)",
  executionsDays: "days that a project may keep executions of rules (settings.executionsDays)",
};

const planLimits = (plan: Plan): Limit[] =>
  Object.entries(PLAN_TEXTS).flatMap(([name, text]) => {
    const value = PLAN_LIMITS[plan][name as keyof PlanLimits];
    if (value === null) return [];
    const appliesTo = `plan ${plan}: ${text}`;
    if (name !== "requestsPerMinute") return [limit(`plan.${plan}.${name}`, value, "items", appliesTo)];
    return [{ ...limit(`plan.${plan}.${name}`, value, "requests", appliesTo), windowSeconds: 60 }];
  });

/**
 * The limits that apply to callers, as stated by the code that enforces them. A test names those that are
 * missing; `test/support/source/limits.ts` says how it finds them.
 */
const LISTED: readonly Limit[] = [
  ...GENERAL_LIMITS,
  ...CHAT_LIMITS,
  ...LOBBY_ROOM_LIMITS,
  ...LEADERBOARD_LIMITS,
  ...EVENT_LIMITS,
  ...ANALYTICS_LIMITS,
  ...PLAYER_LIMITS,
  ...LOBBY_LIMITS,
  ...DEFINITION_LIMITS,
  ...ACCOUNT_LIMITS,
  ...SCIM_LIMITS,
  ...DOMAIN_LIMITS,
  ...RATE_LIMITS,
  ...PLANS.flatMap(planLimits),
];

const open = group({ tag: "Limits", project: "none", access: "public" });

export const limitRoutes = [
  open.get("/limits", "listLimits", {
    isRevalidated: true,
    summary: "List the limits of the service",
    response: z.object({ data: z.array(Limit) }),
    outside: async () => ({ data: [...LISTED] }),
  }),
];
