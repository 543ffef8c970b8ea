import { randomUUID } from "node:crypto";
import { z } from "zod";

export const EMAIL_MAX = 254;

/** Stricter than the standards: `%` and `!` make old relays forward the mail, `?` starts encoded words. */
const ATOM = "[A-Za-z0-9_'+&=~-]{1,64}";
const LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const TOP = "(?:[A-Za-z]{2,63}|xn--[A-Za-z0-9-]{1,59})";

/**
 * A valid recipient address: dot-atom @ host name, plain ASCII, exactly one. Narrower than the mail standards
 * on purpose: quoted, commented and listed forms allow one address to become two.
 */
const MAIL_ADDRESS = new RegExp(
  `^(?=[^@]{1,64}@)(?=.{3,${EMAIL_MAX}}$)${ATOM}(?:\\.${ATOM})*@(?:${LABEL}\\.)+${TOP}$`,
);

/** An address as entered by callers; surrounding blanks are removed. */
export const EmailAddress = z
  .string()
  .trim()
  .max(EMAIL_MAX)
  .pipe(z.email({ pattern: MAIL_ADDRESS }));

/** Returns the form in which an address is stored and looked up. */
export const normaliseEmail = (email: string): string => email.trim().toLowerCase();

/** A domain that can never exist (RFC 2606). */
const RELEASED = "@released.invalid";

/** Returns an address that is nobody's, for an account that has given up its own. */
export const releasedAddress = (): string => randomUUID() + RELEASED;

/** Whether an account has given up its address; no mail is sent to this one. */
export const isReleased = (email: string): boolean => email.toLowerCase().endsWith(RELEASED);

// Without the m flag `$` only matches the very end, so a trailing line break is rejected.
export const isMailAddress = (text: string): boolean => MAIL_ADDRESS.test(text);
