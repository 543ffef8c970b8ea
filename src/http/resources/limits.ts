import { z } from "zod";
import { type LimitName, LIMITS as RATES } from "../../domain/accounts/rate-limits/limiter.ts";
import { Limit, limit, rate, SERVICE_LIMITS } from "../listed-limits/definitions.ts";
import { type Plan, PLAN_LIMITS, type PlanLimits, PLANS } from "../../domain/kernel/caller.ts";
import { group } from "../route.ts";

/** What each rate applies to, in the order in which they are listed; null: it is not told. */
const RATE_TEXTS: Readonly<Record<LimitName, readonly [unit: Limit["unit"], appliesTo: string] | null>> = {
  anonymous: ["requests", "requests of one address without credentials, or with refused ones"],
  user: ["requests", "requests of one console user, but for GET"],
  userReads: ["requests", "GET requests of one console user"],
  admin: ["requests", "requests of one super-admin"],
  registration: ["requests", "registrations from one address"],
  verifyEmail: ["requests", "proofs of an email address from one address"],
  addressChange: ["requests", "wishes of one user for another email address"],
  refresh: ["requests", "renewals of one session"],
  ssoTest: ["requests", "tests of one tenant's identity provider"],
  billing: ["requests", "checkouts and portals of the payment provider that one tenant opens"],
  domainCheck: ["requests", "checks of one custom domain, or domain of email addresses, that are asked for"],
  joins: ["requests", "joins of rooms of one player, or one user"],
  wsToken: ["requests", "tokens for the rooms of one player"],
  lobbyPasscode: ["requests", "passcodes that one player tries at one lobby"],
  questAttempts: ["requests", "codes and answers that one player tries at one step of a quest"],
  badKeys: ["requests", "unknown API keys from one address, which is then blocked for a while"],
  loginFailures: ["requests", "failed logins from one address, which is then blocked for a while"],
  mfaFailures: [
    "requests",
    "wrong codes of a second factor, of one known address or of all strangers together",
  ],
  mfaDay: ["requests", "wrong codes of a second factor, of one known address or of all strangers together"],
  mailMinute: ["items", "mails of one kind to one recipient"],
  mailDay: ["items", "mails of one kind to one recipient"],
  mailHalfHour: ["items", "mails to one recipient beyond those of the day, but for invitations"],
  mailTenant: ["items", "mails that one tenant's people ask for"],
  // Only machines meet it.
  honeypot: null,
};

const RATE_LIMITS: readonly Limit[] = (Object.keys(RATE_TEXTS) as LimitName[]).flatMap((name) => {
  const text = RATE_TEXTS[name];
  return text ? [rate(RATES[name], ...text)] : [];
});

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

/** The limits that apply to callers, as stated by the code that enforces them. */
const LISTED: readonly Limit[] = [...SERVICE_LIMITS, ...RATE_LIMITS, ...PLANS.flatMap(planLimits)];

const open = group({ tag: "Limits", project: "none", access: "public" });

export const limitRoutes = [
  open.get("/limits", "listLimits", {
    isRevalidated: true,
    summary: "List the limits of the service",
    response: z.object({ data: z.array(Limit) }),
    outside: async () => ({ data: [...LISTED] }),
  }),
];
