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

/** What a provider says about a person, in whatever quality. */
export type Claims = {
  subject: unknown;
  email?: unknown;
  /** Only `true` counts. */
  isEmailVerified?: unknown;
  name?: unknown;
};

/** The part of what a provider says that can be relied on and stored. @throws OAuthError provider_error */
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

/** What to call somebody whose provider told no name, until they say. */
export const provisionalName = (email: string): string => {
  const [local = ""] = email.split("@");
  return local.length >= NAME_MIN ? local : email;
};
