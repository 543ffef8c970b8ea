import { type LimitName, LIMITS as RATES } from "../../domain/accounts/rate-limits/limiter.ts";
import { type Limit, rate } from "./limit.ts";

/** What each rate applies to, in the order in which they are listed; null: it is not told. */
const RATE_TEXTS: Readonly<Record<LimitName, readonly [unit: Limit["unit"], appliesTo: string] | null>> = {
  anonymous: ["requests", "requests of one address without credentials, or with refused ones"],
  user: ["requests", "requests of one console user"],
  admin: ["requests", "requests of one super-admin"],
  registration: ["requests", "registrations from one address"],
  verifyEmail: ["requests", "proofs of an email address from one address"],
  addressChange: ["requests", "wishes of one user for another email address"],
  refresh: ["requests", "renewals of one session"],
  ssoTest: ["requests", "tests of one tenant's identity provider"],
  billing: ["requests", "checkouts and portals of the payment provider that one tenant opens"],
  scim: ["requests", "requests of one tenant's identity provider by SCIM"],
  domainCheck: ["requests", "checks of one custom domain that are asked for"],
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

export const RATE_LIMITS: readonly Limit[] = (Object.keys(RATE_TEXTS) as LimitName[]).flatMap((name) => {
  const text = RATE_TEXTS[name];
  return text ? [rate(RATES[name], ...text)] : [];
});
