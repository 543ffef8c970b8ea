import type { Caller, KeyCaller } from "../../kernel/caller.ts";
import { limitsOf } from "../../kernel/plans.ts";
import { limitKeyOf } from "./ip-address.ts";
import {
  type Bucket,
  type Count,
  type Counted,
  type Limiter,
  type LimitState,
  RateLimited,
} from "./limiter.ts";
import { type LimitName, LIMITS } from "./limits.ts";

/** A limit of a request, with the reason and subject of its error. */
type RequestLimit = Count & { reason: string; whose: string };

const MINUTE = 60;

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

const limitsOfCaller = (caller: Caller, address: string): RequestLimit[] => {
  const whoseUser = { reason: "USER_RATE", whose: "of this user" };
  if (caller.kind === "key") return limitsOfKey(caller);
  if (caller.kind === "user") return [{ bucket: LIMITS.user, key: caller.userId, ...whoseUser }];
  if (caller.kind === "scim") {
    const whose = "of the tenant's SCIM tokens";
    return [{ bucket: LIMITS.scim, key: caller.tenantId, reason: "SCIM_RATE", whose }];
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
  const seconds = Math.max(1, Math.ceil((state.resetAtMs - nowMs) / 1_000));
  const message =
    `The limit ${whose} is ${limit} requests in ${windowSeconds} seconds and is used up; ` +
    `try again in ${seconds} seconds`;
  return new RateLimited(reason, message, state, nowMs);
};

export type RequestLimitParts = { limiter: Limiter; clock: () => Date };

const consume = async (
  { limiter, clock }: RequestLimitParts,
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

/**
 * Counts a request against all its limits: its caller's, then those of `names`, which are by address. After
 * an exhausted one, the following ones are not counted.
 *
 * @returns the limit with the fewest requests left; undefined for a caller without limits
 * @throws RateLimited KEY_RATE, PROJECT_RATE, USER_RATE, IP_RATE, REGISTRATION_RATE, or after another name
 */
export const countRequest = (
  parts: RequestLimitParts,
  caller: Caller,
  address: string,
  names: readonly LimitName[],
): Promise<Counted | undefined> =>
  consume(parts, [...limitsOfCaller(caller, address), ...names.map((name) => limitOfAddress(name, address))]);
