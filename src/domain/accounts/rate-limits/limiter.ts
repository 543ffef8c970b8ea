import { type Caller, type KeyCaller, limitsOf } from "../../kernel/caller.ts";
import { DomainError, numbered } from "../../kernel/errors.ts";
import { limitKeyOf } from "../../kernel/networks.ts";

const MINUTE = 60;

/** A limit: maximum points in a window that opens with the first one. Each name has its own keys. */
export type Bucket = { name: string; points: number; seconds: number };

export type LimitState = {
  isAllowed: boolean;
  /** Points of the window, and the remaining ones. */
  limit: number;
  remaining: number;
  windowSeconds: number;
  /** End of the window in Unix ms. */
  resetAtMs: number;
};

/** A state with the points counted, including those of rejected requests. */
export type Counted = LimitState & { used: number };

/** Points to be counted for a key. */
export type Count = { bucket: Bucket; key: string; points?: number };

/** A point that was counted, and when its window was said to end, in Unix ms. */
export type Given = Omit<Count, "points"> & Pick<LimitState, "resetAtMs">;

/**
 * Exact counters over all processes; while the shared store is unavailable, each process counts by itself. It
 * never throws and never delays a request because of a store that hangs. A window does not store its limit:
 * `points` of the bucket passed in decides, so a new limit applies to open windows.
 */
export type Limiter = {
  consume(bucket: Bucket, key: string, points?: number): Promise<Counted>;
  /** Several `consume` in order, up to the first exhausted one, in one round trip. */
  consumeInTurn(counts: readonly Count[]): Promise<Counted[]>;
  /** Takes points back where the windows in which they were counted are still open. */
  giveBack(given: readonly Given[]): Promise<void>;
  /** Reads the state without counting. */
  read(bucket: Bucket, key: string): Promise<Counted>;
  reset(bucket: Bucket, key: string): Promise<void>;
};

/** Returns the headers about the narrowest limit of a request. */
export const limitHeaders = ({ limit, remaining, resetAtMs }: LimitState): Record<string, string> => ({
  "X-RateLimit-Limit": String(limit),
  "X-RateLimit-Remaining": String(remaining),
  // Unix seconds, rounded up, so that clients do not return too early.
  "X-RateLimit-Reset": String(Math.ceil(resetAtMs / 1_000)),
});

/** A 429 error with the state of its limit for the headers of the response; its message says how long to wait. */
export class RateLimited extends DomainError {
  readonly state: LimitState;
  constructor(reason: string, message: string, state: LimitState, nowMs: number) {
    const retryAfterSeconds = Math.max(1, Math.ceil((state.resetAtMs - nowMs) / 1_000));
    super("RATE_LIMITED", `${message}; try again in ${numbered(retryAfterSeconds, "second")}`, {
      reason,
      retryAfterSeconds,
    });
    this.state = state;
  }
}

/** What counts uses: `clock` says how long a refused caller waits. */
export type CountingParts = { limiter: Limiter; clock: () => Date };

/** Counts one use, in one or several buckets. @throws RateLimited with this reason where one is exhausted */
export const countUse = async (
  { limiter, clock }: CountingParts,
  counts: Count | readonly Count[],
  reason: string,
  message: string,
): Promise<void> => {
  const states = await limiter.consumeInTurn([counts].flat());
  const refused = states.find(({ isAllowed }) => !isAllowed);
  if (refused) throw new RateLimited(reason, message, refused, clock().getTime());
};

const HOUR = 3_600;
const DAY = 86_400;

/** All limits that are independent of plans and keys. */
export const LIMITS = {
  /** Requests without credentials, per address. */
  anonymous: { name: "ip", points: 300, seconds: MINUTE },
  user: { name: "user", points: 600, seconds: MINUTE },
  /** A page of the console asks several things at once, again and again. */
  userReads: { name: "user-reads", points: 1_800, seconds: MINUTE },
  admin: { name: "admin", points: 600, seconds: MINUTE },
  registration: { name: "registration", points: 5, seconds: HOUR },
  badKeys: { name: "bad-keys", points: 60, seconds: MINUTE },
  loginFailures: { name: "login", points: 20, seconds: 15 * MINUTE },
  /** Wrong codes of a second factor for an account: of one known address, and of all strangers together. */
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
  /** Checks of one custom domain, or domain of single sign-on, that its tenant asks for. */
  domainCheck: { name: "domain-check", points: 1, seconds: MINUTE },
  /** Joins of rooms of one player, or one user. */
  joins: { name: "joins", points: 20, seconds: 10 },
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

/** A limit of a request, with the reason and subject of its error. */
type RequestLimit = Count & { reason: string; whose: string };
const perMinute = (name: string, points: number): Bucket => ({ name, points, seconds: MINUTE });

/**
 * Returns the key's own limit, which never exceeds its plan's, and the shared limit of its project's keys.
 */
const limitsOfKey = ({ keyId, ownerProjectId, rateLimit, tenant }: KeyCaller): RequestLimit[] => {
  const { requestsPerMinute: plan } = limitsOf(tenant);
  const own = rateLimit === null ? [] : [Math.min(rateLimit, plan ?? Infinity)];
  return [
    ...own.map((points) => ({
      bucket: perMinute("key", points),
      key: keyId,
      reason: "KEY_RATE",
      whose: "of this API key",
    })),
    ...(plan === null ? [] : [plan]).map((points) => ({
      bucket: perMinute("project", points),
      key: ownerProjectId,
      reason: "PROJECT_RATE",
      whose: "of the project's API keys, which its plan sets,",
    })),
  ];
};

const limitsOfCaller = (caller: Caller, address: string, isRead: boolean): RequestLimit[] => {
  const whoseUser = { reason: "USER_RATE", whose: "of this user" };
  if (caller.kind === "key") return limitsOfKey(caller);
  if (caller.kind === "user") {
    const bucket = isRead ? LIMITS.userReads : LIMITS.user;
    return [{ bucket, key: caller.userId, ...whoseUser }];
  }
  if (caller.kind === "admin") return [{ bucket: LIMITS.admin, key: caller.adminId, ...whoseUser }];
  return [limitOfAddress("anonymous", address)];
};

/** Converts `verifyEmail` to VERIFY_EMAIL. */
const constantCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();

const limitOfAddress = (name: LimitName, address: string): RequestLimit => ({
  bucket: LIMITS[name],
  key: limitKeyOf(address),
  reason: name === "anonymous" ? "IP_RATE" : `${constantCase(name)}_RATE`,
  whose: "of your address",
});

const refusal = ({ whose, reason }: RequestLimit, state: LimitState, nowMs: number): RateLimited => {
  const { limit, windowSeconds } = state;
  const message = `The limit ${whose} is ${numbered(limit, "request")} in ${windowSeconds} seconds and is used up`;
  return new RateLimited(reason, message, state, nowMs);
};

const consume = async (
  { limiter, clock }: CountingParts,
  limits: readonly RequestLimit[],
): Promise<Counted | undefined> => {
  const states = await limiter.consumeInTurn(limits);
  let narrowest: Counted | undefined;
  for (const [index, state] of states.entries()) {
    if (!state.isAllowed) throw refusal(limits[index]!, state, clock().getTime());
    if (narrowest === undefined || state.remaining < narrowest.remaining) narrowest = state;
  }
  return narrowest;
};

/** What a request counts as. `names`: limits by address; `isRead`: it changes nothing. */
type Counting = { names?: readonly LimitName[]; isRead?: boolean };

/**
 * Counts a request against all its limits: its caller's, then those of `names`, which are by address. After
 * an exhausted one, the following ones are not counted.
 *
 * @returns the limit with the fewest requests left; undefined for a caller without limits
 * @throws RateLimited KEY_RATE, PROJECT_RATE, USER_RATE, IP_RATE, REGISTRATION_RATE, or after another name
 */
export const countRequest = (
  parts: CountingParts,
  caller: Caller,
  address: string,
  { names = [], isRead = false }: Counting = {},
): Promise<Counted | undefined> =>
  consume(parts, [
    ...limitsOfCaller(caller, address, isRead),
    ...names.map((name) => limitOfAddress(name, address)),
  ]);
