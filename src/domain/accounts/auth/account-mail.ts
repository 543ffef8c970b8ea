import { type Mail, mailIsOff, type MailTemplate } from "../email/mail.ts";
import type { Limiter } from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";

/** What it takes to mail somebody who asks for it. */
export type Post = { mail: Mail; limiter: Limiter };

/** @throws SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED, for known and unknown addresses alike */
export const requireMail = ({ mail }: Pick<Post, "mail">): void => {
  if (mail.isOff) throw mailIsOff();
};

/**
 * Counts a mail that anybody may ask for against the limits of its address: whether it may go out. After the
 * mails of a day there is one more each half hour, so whoever asks in a stranger's name keeps nobody from
 * their link: one that is good has come, or comes. Not to be called in a transaction.
 *
 * @param asker the tenant that asks, or what the account knows the asker by; each counts for itself, and
 *   strangers together
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
  // Opened by the mails of the day too: the next comes half an hour after one of them, not at once.
  const halfHour = await limiter.consume(LIMITS.mailHalfHour, key);
  return day.isAllowed || halfHour.isAllowed;
};
