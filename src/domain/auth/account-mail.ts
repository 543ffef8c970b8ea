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
 * Counts a mail that anybody may ask for against the limits of its address: whether it may go out. Not to be
 * called in a transaction.
 */
export const isMailAllowed = async (
  limiter: Limiter,
  template: MailTemplate,
  email: string,
): Promise<boolean> => {
  const key = `${template}:${email}`;
  if (!(await limiter.consume(LIMITS.mailMinute, key)).isAllowed) return false;
  return (await limiter.consume(LIMITS.mailDay, key)).isAllowed;
};
