import { type Mail, mailIsOff, type MailTemplate } from "../email/mail.ts";
import type { Limiter } from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";

/** Dependencies for mailing a user on request. */
export type MailRequestParts = { mail: Mail; limiter: Limiter };

/** @throws SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED, for known and unknown addresses alike */
export const requireMail = ({ mail }: Pick<MailRequestParts, "mail">): void => {
  if (mail.isOff) throw mailIsOff();
};

/**
 * Counts a mail that anybody may request against the limits of its address, and returns whether it may be
 * sent. Beyond the daily limit one mail is allowed each half hour, so that a stranger's requests cannot keep
 * the owner from getting a link. Not to be called in a transaction.
 *
 * @param asker the tenant, or the account's known origin of the request; each is counted separately, and all
 * strangers together
 */
export const isMailAllowed = async (
  limiter: Limiter,
  template: MailTemplate,
  email: string,
  asker?: string,
): Promise<boolean> => {
  const key = [template, email, ...(asker === undefined ? [] : [asker])].join(":");
  if (!(await limiter.consume(LIMITS.mailMinute, key)).isAllowed) return false;
  const day = await limiter.consume(LIMITS.mailDay, key);
  // Also consumed by the mails of the daily limit: the next is sent half an hour after one of them, not at
  // once.
  const halfHour = await limiter.consume(LIMITS.mailHalfHour, key);
  return day.isAllowed || halfHour.isAllowed;
};
