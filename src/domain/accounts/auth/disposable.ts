import { disposableEmailBlocklistSet } from "disposable-email-domains-js";
import { invalid } from "../../kernel/errors.ts";
import { normaliseDomain } from "../sso/domain-name.ts";

/** The operator's own domains, which override the list: each with its sub-domains, in any case. */
export type DisposableLists = { allow: readonly string[]; deny: readonly string[] };

/** Kept here because the library builds the set on each call. */
const listed: ReadonlySet<string> = disposableEmailBlocklistSet();

/** Returns a domain and its parents, the nearest first: `a.b.c` gives `a.b.c` and `b.c`. */
const withParents = (domain: string): string[] => {
  const labels = domain.split(".");
  return labels.slice(0, -1).map((_, index) => labels.slice(index).join("."));
};

const names = (list: readonly string[], domain: string): boolean =>
  list.some((entry) => normaliseDomain(entry) === domain);

/**
 * Returns whether the address belongs to a provider of throw-away mailboxes. The nearest known domain
 * decides.
 */
export const isDisposable = (email: string, { allow, deny }: DisposableLists): boolean => {
  const domain = email.slice(email.lastIndexOf("@") + 1).toLowerCase();
  for (const known of withParents(domain)) {
    if (names(allow, known)) return false;
    if (names(deny, known) || listed.has(known)) return true;
  }
  return false;
};

/** @throws VALIDATION_ERROR EMAIL_DISPOSABLE */
export const refuseDisposable = (email: string, lists: DisposableLists): void => {
  if (!isDisposable(email, lists)) return;
  throw invalid(
    "email",
    "belongs to a provider of disposable addresses; use a permanent one",
    "EMAIL_DISPOSABLE",
  );
};
