import type { Bucket } from "./limiter.ts";

const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;

/** All limits that are independent of plans and keys. */
export const LIMITS = {
  /** Requests without credentials, per address. */
  anonymous: { name: "ip", points: 300, seconds: MINUTE },
  user: { name: "user", points: 600, seconds: MINUTE },
  admin: { name: "admin", points: 600, seconds: MINUTE },
  registration: { name: "registration", points: 5, seconds: HOUR },
  badKeys: { name: "bad-keys", points: 60, seconds: MINUTE },
  loginFailures: { name: "login", points: 20, seconds: 15 * MINUTE },
  /** Wrong passwords for one account, from all unknown addresses and devices together. */
  loginAccount: { name: "login-account", points: 10, seconds: HOUR },
  /** Wrong codes of a second factor for an account: of one known origin, and of all strangers together. */
  mfaFailures: { name: "mfa", points: 10, seconds: 15 * MINUTE },
  mfaDay: { name: "mfa-day", points: 50, seconds: DAY },
  honeypot: { name: "honeypot", points: 10, seconds: HOUR },
  verifyEmail: { name: "verify-email", points: 10, seconds: MINUTE },
  /**
   * As few as registrations: each reveals whether an address is taken, or mails somebody, maybe a stranger.
   */
  addressChange: { name: "address-change", points: 5, seconds: HOUR },
  refresh: { name: "refresh", points: 60, seconds: MINUTE },
  /** Tests of one tenant's identity provider. */
  ssoTest: { name: "sso-test", points: 10, seconds: HOUR },
  /** Pages of the payment provider that a tenant opens. */
  billing: { name: "billing", points: 30, seconds: HOUR },
  /** Requests of one tenant's identity provider. Microsoft Entra asks for 25 in a second. */
  scim: { name: "scim", points: 1_800, seconds: MINUTE },
  /** Checks of one custom domain that its tenant asks for. */
  domainCheck: { name: "domain-check", points: 1, seconds: MINUTE },
  wsToken: { name: "ws-token", points: 60, seconds: MINUTE },
  /** Passcode attempts of one player at one lobby. */
  lobbyPasscode: { name: "lobby-passcode", points: 5, seconds: MINUTE },
  /** Codes and answers that one player tries at one step of a quest. */
  questAttempts: { name: "quest-attempts", points: 10, seconds: MINUTE },
  mailMinute: { name: "mail-minute", points: 1, seconds: MINUTE },
  mailDay: { name: "mail-day", points: 5, seconds: DAY },
  /**
   * Mails beyond the daily limit; half the lifetime of the shortest link, so that a valid one is available.
   */
  mailHalfHour: { name: "mail-half-hour", points: 1, seconds: 30 * MINUTE },
  mailTenant: { name: "mail-tenant", points: 50, seconds: HOUR },
} as const satisfies Record<string, Bucket>;

export type LimitName = keyof typeof LIMITS;
