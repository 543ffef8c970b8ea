import { type Limiter, RateLimited } from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";

/**
 * Counts a mail that the recipient did not request: per tenant 1 a minute and 5 a day to an address, and 50
 * an hour. Tenants are counted separately, so that none uses up the limits of another. Not to be called in a
 * transaction. @throws RateLimited EMAIL_RATE
 */
export const countInvitationMail = async (
  { limiter, clock }: { limiter: Limiter; clock: () => Date },
  tenantId: string,
  email: string,
): Promise<void> => {
  const key = `invitation:${tenantId}:${email}`;
  const states = await limiter.consumeInTurn([
    { bucket: LIMITS.mailTenant, key: `invitation:${tenantId}` },
    { bucket: LIMITS.mailMinute, key },
    { bucket: LIMITS.mailDay, key },
  ]);
  const refused = states.find(({ isAllowed }) => !isAllowed);
  if (!refused) return;
  const message = "Too many invitations by mail; wait as long as Retry-After says";
  throw new RateLimited("EMAIL_RATE", message, refused, clock().getTime());
};
