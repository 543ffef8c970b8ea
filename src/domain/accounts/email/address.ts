import { z } from "zod";

export const EMAIL_MAX = 254;

/** Not all that the standards allow: `%` and `!` ask old relays to pass it on, `?` makes encoded words. */
const ATOM = "[A-Za-z0-9_'+&=~-]{1,64}";
const LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const TOP = "(?:[A-Za-z]{2,63}|xn--[A-Za-z0-9-]{1,59})";

/**
 * An address that mail may be sent to: dot-atom @ host name, plain ASCII, one and no more. Narrower than the
 * mail standards on purpose: quoted, commented and listed forms are how one address becomes two.
 */
export const MAIL_ADDRESS = new RegExp(
  `^(?=[^@]{1,64}@)(?=.{3,${EMAIL_MAX}}$)${ATOM}(?:\\.${ATOM})*@(?:${LABEL}\\.)+${TOP}$`,
);

/** An address as callers may write it; blanks around it are cut. */
export const EmailAddress = z
  .string()
  .trim()
  .max(EMAIL_MAX)
  .pipe(z.email({ pattern: MAIL_ADDRESS }));

/** The form under which an address is stored and looked up. */
export const normaliseEmail = (email: string): string => email.trim().toLowerCase();

// `$` without the m flag also matches nothing but the end, so a line break at the end is refused.
export const isMailAddress = (text: string): boolean => MAIL_ADDRESS.test(text);
