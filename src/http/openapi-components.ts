import { z } from "zod";
import type { ZodOpenApiParameterObject } from "zod-openapi";
import { ERROR_STATUS, type ErrorCode } from "../domain/kernel/errors.ts";
import { IDEMPOTENCY_KEY_MAX } from "../domain/kernel/idempotency.ts";

/** Introduction to the API for readers of /docs; Markdown. */
export const INTRODUCTION = `Multi-tenant gamification: players, events, rules, levels and live leaderboards.

## Credentials

| Who | Sends | Gets it from |
|---|---|---|
| a program of yours | \`X-API-Key: svc_live_...\` | POST /projects/{projectId}/api-keys |
| a console user | \`Authorization: Bearer <access token>\` | POST /auth/login |
| a super-admin | the same, with a token of their own | POST /superadmin/auth/login |
| a machine of the platform | \`Authorization: Bearer svc_admin_...\` | POST /superadmin/tokens |

A key belongs to one project and may do what its **scopes** say; a \`svc_test_\` key acts on the project's
sandbox. A user may do what their **role** says: OWNER, ADMIN, DESIGNER, DEVELOPER or VIEWER, which are no
ladder. Every operation below names the scope and the roles that open it. A user whose tenant has several
projects names one in \`X-Project-ID\`.

An access token lives 7 days (24 hours after registering, 15 minutes with \`X-Session: cookie\`), a super-admin's
one hour. A refresh token is good once; what was changed or revoked counts within 5 seconds.

## Limits

Requests are counted for each API key and its project (by plan), for each user, and without credentials for
each address. Answers to which a limit applies have \`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\` and
\`X-RateLimit-Reset\` (Unix seconds); 429 and 503 have \`Retry-After\` (seconds). All numbers: GET /limits.

## Repeating a request

A POST that takes \`X-Idempotency-Key\` can be sent again with the same key for 24 hours: it is done once,
and answered the same, with \`X-Idempotent-Replayed: true\`. The key with another request is 422, while the
first is under way 409.

## Errors

Everything but 200 and 201 (and redirects of OAuth) has the body \`Error\`. Programs decide by \`code\` and,
where there is one, \`reason\`; \`message\` is for people. A record of another tenant is 404, as if there
were none.

## Lists

They take \`page\` and \`limit\` and answer \`data\` and \`pagination\`. A total that was only estimated is
told by the header \`X-Total-Estimated: true\`. Events go by \`cursor\`.`;

/** Descriptions by tag. */
export const TAG_TEXT: Readonly<Record<string, string>> = {
  Authentication: "Accounts of console users: registering, signing in, sessions, passwords, addresses.",
  "Second factor":
    "Authenticator apps, recovery codes and passkeys of users, at the sign-in and when asked again.",
  OAuth: "Signing in with Google or GitHub. The flow begins in a browser, on this server's public address.",
  "Single sign-on":
    "A tenant's own identity provider, by SAML or OpenID Connect: configuration, domains, and signing in.",
  "Custom domains": "Names of a tenant's own for this API: DNS records that prove them, and certificates.",
  Tenant: "The account that a team shares: its plan, its state, and what was done in it.",
  Billing: "Plans, subscriptions and invoices of a tenant, and what it uses of its plan.",
  Team: "Members, their roles, and invitations.",
  Projects: "Each has players, events and definitions of its own, and a sandbox to try things in.",
  "API keys": "Credentials of programs.",
  Events: "What players did, as your programs tell it. Rules, counters and boards follow from it.",
  Players: "The people who play: profiles, XP, ids at other providers, merging, history, and erasure.",
  Rules: "What follows from which events: drafts, publishing, trying out, and what rules have done.",
  "Level curve": "How much XP each level needs.",
  Levels: "What a level is called and gives.",
  Badges: "What can be earned once or in tiers, who holds it, and how far players have come.",
  Currencies: "What players can have an amount of.",
  Balances: "Amounts of currencies: granting, spending, and holding back.",
  Ledger: "Every change of what players own, chained so that a change afterwards shows.",
  Lives: "Attempts that come back with time.",
  Boosts: "Multipliers: campaigns of a project, and those of a single player.",
  Rewards: "Bundles and prizes: granting, buying, claiming, and codes.",
  Inbox: "Messages to players.",
  Segments: "Groups of players, by hand or by conditions.",
  Analytics:
    "Measures over time, segments, retention, cohorts and funnels, the players behind them, and files.",
  Leaderboards: "Boards, their entries and periods, and the scores that programs submit.",
  Lobbies: "Where players gather before a game, and the game's result.",
  "Chat moderation": "Sanctions, reports, word lists, and what the filter holds back.",
  Configuration: "The definitions of a project as one document, to export, compare and import; its settings.",
  Webhooks: "What is sent to your servers when something happens, and a feed of the same.",
  Quests: "Goals of several steps, once or in cycles: what a project defines, and how far its players are.",
  Adventures: "Seasonal collections of quests, with points, tiers and premium.",
  Streaks: "Periods, or events, in a row: what a project defines, and how far its players have come.",
  Chat: "Channels of a project, of its lobbies and of two players, what is said there, and its moderation.",
  Jobs: "Long work of a project, done in steps while events go on.",
  Limits: "Sizes and rates, as the server keeps them.",
  Email: "Delivery of mails.",
  "Rate limits": "Counters of addresses, and blocked ones. For super-admins.",
  Blog: "Posts that a build syncs with a platform token and everybody reads.",
  "Super-admin": "Running the platform. Super-admins are no users of any tenant.",
};

/** Beginnings of names of components, in place of those made of where a part is met first. */
export const NAMES: Readonly<Record<string, string>> = {
  AccountTenantApprovalStatus: "ApprovalStatus",
  AccountTenantPlan: "Plan",
  AccountUserRole: "Role",
  AccountUserStatus: "MembershipStatus",
  ConfigDocumentLeaderboardLeaderboard: "NewLeaderboard",
  ConfigDocumentRuleRule: "NewRule",
  CurrencyStatus: "DefinitionStatus",
  ErrorErrorCode: "ErrorCode",
  ErrorErrorDetail: "ErrorDetail",
  EventFilterOp: "Operator",
  ExpressionOperationOp: "ExpressionOperator",
  GetAnalyticsOverviewPeriod: "AnalyticsPeriod",
  GetAnalyticsOverviewWeekStart: "AnalyticsWeekStart",
  ListCurrenciesSort: "DefinitionSort",
  ListEventTypesOrder: "SortOrderAscending",
  ListEventsOrder: "EventOrder",
  ListPlayerActivityCause: "CauseKind",
  ListSessionsOrder: "SortOrder",
  MetricWindowCalendarUnit: "CalendarUnit",
  PutLevelCurveRequestTableRecalculate: "Recalculation",
  RuleConditionEventAggregateOp: "NumericOperator",
  RuleDraft: "Rule",
  RuleGraphNodeStatus: "RuleStatus",
};

export const JSON_TYPE = "application/json";

export const ErrorSchema = z
  .object({
    error: z.object({
      code: z.enum(Object.keys(ERROR_STATUS) as [ErrorCode, ...ErrorCode[]]),
      message: z.string(),
      details: z
        .array(z.object({ field: z.string(), message: z.string() }))
        .meta({ description: "One item for each bad field; empty for other errors" }),
      reason: z
        .string()
        .optional()
        .meta({ description: "The specific cause, for programs", example: "MALFORMED_JSON" }),
      challenge: z
        .object({
          token: z.string().meta({ description: "For POST /auth/login/mfa, within 5 minutes, once" }),
          expiresAt: z.iso.datetime(),
          methods: z.array(z.enum(["TOTP", "PASSKEY", "RECOVERY_CODE"])),
        })
        .optional()
        .meta({ description: "With the reason MFA_REQUIRED of a sign-in: how it goes on" }),
      requestId: z.string(),
      timestamp: z.iso.datetime(),
    }),
  })
  .meta({ id: "Error", description: "The body of every answer that is not 200 or 201" });

const REQUEST_ID = {
  description:
    "Names the request in the server's log; yours if you sent one of 8 to 64 letters, digits, _ or -",
  schema: { type: "string" as const },
};
const whole = (description: string) => ({ description, schema: { type: "integer" as const } });
/** Descriptions of response headers, by name. */
export const HEADER_TEXTS = {
  "X-Request-Id": REQUEST_ID,
  "X-RateLimit-Limit": whole("Requests in a window of the limit that has the fewest left"),
  "X-RateLimit-Remaining": whole("Requests that are left in it"),
  "X-RateLimit-Reset": whole("When the window closes, in Unix seconds"),
};
/** Headers of every response; those about a limit where one applies. */
export const HEADERS = Object.fromEntries(
  Object.keys(HEADER_TEXTS).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
);

/** Returns a component's name for an error: `VALIDATION_ERROR` is `ValidationError`. */
export const nameOf = (code: ErrorCode): string =>
  code.toLowerCase().replace(/(^|_)(\w)/g, (_all, _mark, letter: string) => letter.toUpperCase());

const TEXT: Record<ErrorCode, string> = {
  VALIDATION_ERROR: "The request is not valid; `details` names the fields",
  UNAUTHORIZED: "Credentials are missing or not valid",
  PAYMENT_REQUIRED: "The plan does not include this, or its quota is used up",
  FORBIDDEN: "The role or scope does not allow this",
  NOT_FOUND: "There is no such record within reach of these credentials",
  METHOD_NOT_ALLOWED: "The address exists for other methods, see the header Allow",
  REQUEST_TIMEOUT: "The request took too long to arrive; the connection is closed",
  CONFLICT: "The record exists already, or its state does not allow this; see `reason`",
  GONE: "The link or invitation has expired or was withdrawn",
  PAYLOAD_TOO_LARGE: "The body is too large",
  UNSUPPORTED_MEDIA_TYPE: "The body is not application/json",
  UNPROCESSABLE_ENTITY: "Well formed, but not possible; see `reason`",
  RATE_LIMITED: "Too many requests; wait as long as Retry-After says",
  HEADERS_TOO_LARGE: "The headers are too large; the connection is closed",
  INTERNAL_ERROR: "A fault of the server; quote `requestId`",
  UPSTREAM_ERROR: "Another service that this one depends on failed",
  SERVICE_UNAVAILABLE: "Not possible right now; wait as long as Retry-After says",
};

const CODES = Object.keys(ERROR_STATUS) as ErrorCode[];

export const errorResponses = () =>
  Object.fromEntries(
    CODES.map((code) => [
      nameOf(code),
      {
        description: TEXT[code],
        headers: HEADERS,
        content: { [JSON_TYPE]: { schema: { $ref: "#/components/schemas/Error" } } },
      },
    ]),
  );

export const PARAMETERS = {
  "X-Project-ID": {
    name: "X-Project-ID",
    in: "header",
    description: "The project, for a user whose tenant has several. For an API key it must be the key's own.",
    schema: { type: "string", format: "uuid" },
  },
  "X-Idempotency-Key": {
    name: "X-Idempotency-Key",
    in: "header",
    description:
      "Makes the request safe to repeat: for 24 hours the same key gives the same answer, with " +
      "X-Idempotent-Replayed. The same key with another request answers 422.",
    schema: { type: "string", maxLength: IDEMPOTENCY_KEY_MAX },
  },
  "X-Session": {
    name: "X-Session",
    in: "header",
    description:
      "For pages of this server's console alone, by their Origin: the refresh token is kept in a cookie that " +
      "no script reads, and is not in the answer; POST /auth/refresh and POST /auth/logout take it from there. " +
      "Access tokens of such answers live 15 minutes.",
    schema: { type: "string", enum: ["cookie"] },
  },
  projectId: {
    name: "projectId",
    in: "query",
    description: "Used when X-Project-ID is absent.",
    schema: { type: "string", format: "uuid" },
  },
} satisfies Record<string, ZodOpenApiParameterObject>;

/** How callers authenticate. */
export const SECURITY_SCHEMES = {
  ApiKeyAuth: {
    type: "apiKey",
    in: "header",
    name: "X-API-Key",
    description: "A project's key, for servers",
  },
  BearerAuth: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description: "A user's access token",
  },
  AdminAuth: {
    type: "http",
    scheme: "bearer",
    description: "A super-admin's token, or a platform token (svc_admin_...)",
  },
} as const;
