import { z } from "zod";
import { EmailAddress, normaliseEmail } from "../email/address.ts";
import { NAME_MIN, Name } from "../tenants/text.ts";
import { OAuthError } from "./errors.ts";
import type { ProviderProfile } from "./provider.ts";

const Subject = z
  .string()
  .min(1)
  .max(255)
  .regex(/^[\x21-\x7e]+$/);

/** A provider's claims about a person, unchecked. */
export type Claims = {
  subject: unknown;
  email?: unknown;
  /** Only `true` counts. */
  isEmailVerified?: unknown;
  name?: unknown;
};

/** Validates a provider's claims and returns those to be stored. @throws OAuthError provider_error */
export const profileFrom = ({ subject, email, isEmailVerified, name }: Claims): ProviderProfile => {
  const parsed = Subject.safeParse(subject);
  if (!parsed.success) throw new OAuthError("provider_error", "The provider did not say who you are");
  const address = isEmailVerified === true ? EmailAddress.safeParse(email).data : undefined;
  return {
    subject: parsed.data,
    email: address === undefined ? undefined : normaliseEmail(address),
    name: Name.safeParse(name).data,
  };
};

/** Returns a provisional name for a user whose provider gave no name. */
export const provisionalName = (email: string): string => {
  const [local = ""] = email.split("@");
  return local.length >= NAME_MIN ? local : email;
};
