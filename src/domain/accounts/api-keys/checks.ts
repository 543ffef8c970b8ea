import { conflict, invalid } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { fitsBytes } from "../../kernel/oversize.ts";
import { limitsOf, planLimitExceeded } from "../../kernel/plans.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../../kernel/work.ts";
import { ApiKey } from "./api-key.ts";

/** Maximum active keys of a project, including replaced ones in their grace period. */
export const WORKING_KEYS_MAX = 1_000;
export const KEY_METADATA_MAX_BYTES = 4_096;
/** Dates of later years have no ISO 8601 form of four digits. */
const YEAR_MAX = 9_999;

export type KeyFields = {
  /** Requests per minute. */
  rateLimit?: number | null | undefined;
  expiresAt?: Date | null | undefined;
  metadata?: Json | undefined;
};

/** @throws VALIDATION_ERROR for a past expiry, too much metadata, or a limit above the plan's */
export const checkKeyFields = async (work: Work, tenantId: string, fields: KeyFields): Promise<void> => {
  const { rateLimit, expiresAt, metadata } = fields;
  if (expiresAt) checkExpiry(expiresAt, work.now);
  if (metadata && !fitsBytes(metadata, KEY_METADATA_MAX_BYTES))
    throw invalid("metadata", "must be at most 4 KiB of JSON");
  if (rateLimit == null) return;
  const { requestsPerMinute } = await planOf(work, tenantId);
  if (requestsPerMinute !== null && rateLimit > requestsPerMinute)
    throw invalid("rateLimit", `must be at most ${requestsPerMinute}, the requests per minute of your plan`);
};

/** @throws VALIDATION_ERROR for a past time, or a year that few programs can parse */
export const checkExpiry = (expiresAt: Date, now: Date): void => {
  if (expiresAt <= now) throw invalid("expiresAt", "must be in the future");
  if (expiresAt.getUTCFullYear() > YEAR_MAX)
    throw invalid("expiresAt", `must be in year ${YEAR_MAX} or before`);
};

const planOf = async ({ em }: Work, tenantId: string) =>
  limitsOf(await em.findOneOrFail(Tenant, { id: tenantId }));

/**
 * Checks that the plan allows one more key. Keys that a rotation has replaced do not count, so that a project
 * at its limit can rotate. To be called with the project locked.
 *
 * @throws PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED, CONFLICT LIMIT_REACHED
 */
export const checkPlanRoom = async (work: Work, tenantId: string, projectId: string): Promise<void> => {
  const { activeKeysPerProject: max } = await planOf(work, tenantId);
  const count = await work.em.count(ApiKey, { ...working(work, projectId), replacedBy: null });
  if (max !== null && count >= max) {
    throw planLimitExceeded(
      `Your plan allows ${max} active API keys for each project; revoke one or choose a larger plan`,
    );
  }
  await checkRoom(work, projectId);
};

/** Checks the limit that holds for all plans; with the project locked. @throws CONFLICT LIMIT_REACHED */
export const checkRoom = async (work: Work, projectId: string): Promise<void> => {
  if ((await work.em.count(ApiKey, working(work, projectId))) < WORKING_KEYS_MAX) return;
  throw conflict(
    "LIMIT_REACHED",
    `A project has at most ${WORKING_KEYS_MAX} active API keys; revoke one first`,
  );
};

const working = ({ now }: Work, projectId: string) => ({
  projectId,
  status: "ACTIVE" as const,
  $or: [{ expiresAt: null }, { expiresAt: { $gt: now } }],
});
