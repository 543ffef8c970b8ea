import { isMailAddress, normaliseEmail } from "../email/address.ts";
import { provisionalName } from "../oauth/profile.ts";
import { NAME_MAX, NAME_MIN } from "../tenants/text.ts";
import { isJsonObject } from "../../kernel/json.ts";
import { invalidValue } from "./error.ts";
import { attributeName, type Comparison, parsePath, type ScimPath } from "./filter.ts";

/** Characters of a text, such as a userName. */
export const SCIM_TEXT_MAX = 255;
/** Addresses that a client may name; one is kept. */
export const SCIM_EMAILS_MAX = 20;

export type DraftEmail = { value?: string; type?: string; primary?: boolean };
/** What a client may say of a user. Null: said to be none, or not said. */
export type Draft = {
  userName: string | null;
  externalId: string | null;
  active: boolean;
  displayName: string | null;
  formatted: string | null;
  givenName: string | null;
  familyName: string | null;
  emails: DraftEmail[];
};

/** Returns a draft of which nothing is said but whether the user is active. */
export const emptyDraft = (active: boolean): Draft => ({
  userName: null,
  externalId: null,
  active,
  displayName: null,
  formatted: null,
  givenName: null,
  familyName: null,
  emails: [],
});

type TextField = Exclude<keyof Draft, "active" | "emails">;

const TEXTS: ReadonlyMap<string, TextField> = new Map([
  ["username", "userName"],
  ["externalid", "externalId"],
  ["displayname", "displayName"],
  ["name.formatted", "formatted"],
  ["name.givenname", "givenName"],
  ["name.familyname", "familyName"],
]);

/** Attributes that only this server writes. */
export const READ_ONLY: ReadonlySet<string> = new Set(["id", "meta", "groups", "roles", "schemas"]);

/** Entra's older form wraps a single value as `[{"value": …}]`. */
const unwrapped = (value: unknown): unknown => {
  const only: unknown = Array.isArray(value) && value.length === 1 ? value[0] : value;
  return isJsonObject(only) && "value" in only ? only["value"] : only;
};

/** Returns the text that a client gives; null for none or an empty one. @throws ScimError invalidValue */
export const textOf = (attribute: string, given: unknown): string | null => {
  const value = unwrapped(given) ?? null;
  if (value === null) return null;
  if (typeof value !== "string") throw invalidValue(attribute, "must be a text");
  const text = value.trim();
  if (text.length > SCIM_TEXT_MAX)
    throw invalidValue(attribute, `may have at most ${SCIM_TEXT_MAX} characters`);
  if (/\p{Cc}/u.test(text)) throw invalidValue(attribute, "must not contain control characters");
  return text === "" ? null : text;
};

/** Entra writes "True" and "False". @throws ScimError invalidValue */
const booleanOf = (attribute: string, given: unknown): boolean => {
  const value = unwrapped(given);
  const word = typeof value === "string" ? value.toLowerCase() : value;
  if (word === true || word === "true") return true;
  if (word === false || word === "false") return false;
  throw invalidValue(attribute, "must be true or false");
};

const emailOf = (given: unknown): DraftEmail => {
  if (typeof given === "string") return { value: given };
  if (!isJsonObject(given)) throw invalidValue("emails", "must be objects with a value");
  const email: DraftEmail = {};
  for (const [name, value] of Object.entries(given)) setEmailField(email, attributeName(name), value);
  return email;
};

const setEmailField = (email: DraftEmail, name: string, value: unknown): void => {
  if (name === "primary") email.primary = booleanOf("emails.primary", value);
  else if (name === "value" || name === "type") {
    const text = textOf(`emails.${name}`, value);
    if (text === null) delete email[name];
    else email[name] = text;
  }
};

const emailsOf = (value: unknown): DraftEmail[] => {
  const list: unknown[] = Array.isArray(value) ? value : value == null ? [] : [value];
  if (list.length > SCIM_EMAILS_MAX) throw invalidValue("emails", `may be at most ${SCIM_EMAILS_MAX}`);
  return list.map(emailOf);
};

const fieldOf = (email: DraftEmail, attribute: string): string | boolean => {
  if (attribute === "primary") return email.primary ?? false;
  return (attribute === "type" ? email.type : attribute === "value" ? email.value : undefined) ?? "";
};

/** Returns what tells whether a filter in brackets names an address. */
export const namesEmail =
  ({ attribute, value }: Comparison) =>
  (email: DraftEmail): boolean =>
    String(fieldOf(email, attribute)).toLowerCase() === String(value).toLowerCase();

/** Changes those addresses that the path names; where it names none, adds one of that kind. */
const setEmails = (draft: Draft, { where, sub }: ScimPath, value: unknown): void => {
  if (!where) {
    // `emails.value` is the value of the one address.
    const [first = {}] = draft.emails;
    setEmailField(first, sub ?? "value", value);
    draft.emails = [first, ...draft.emails.slice(1)];
    return;
  }
  let found = draft.emails.filter(namesEmail(where));
  if (found.length === 0) {
    if (draft.emails.length >= SCIM_EMAILS_MAX)
      throw invalidValue("emails", `may be at most ${SCIM_EMAILS_MAX}`);
    const made: DraftEmail = {};
    setEmailField(made, where.attribute, where.value);
    draft.emails.push(made);
    found = [made];
  }
  for (const email of found) {
    if (sub === undefined) Object.assign(email, emailOf(value));
    else setEmailField(email, sub, value);
  }
  keepOnePrimary(draft, found);
};

/** A new primary address makes the others secondary (RFC 7644, 3.5.2). */
export const keepOnePrimary = ({ emails }: Draft, brought: readonly DraftEmail[]): void => {
  if (!brought.some(({ primary }) => primary === true)) return;
  for (const email of emails) if (!brought.includes(email)) email.primary = false;
};

/**
 * Sets an attribute of a user; one that is unknown here is left out, as RFC 7644, 3.3 permits.
 * @throws ScimError invalidValue
 */
export const setAttribute = (draft: Draft, path: ScimPath, value: unknown): void => {
  const { attribute } = path;
  const field = TEXTS.get(attribute);
  if (field !== undefined) draft[field] = textOf(field, value);
  else if (attribute === "active") draft.active = booleanOf("active", value);
  else if (attribute === "name") setName(draft, value);
  else if (attribute === "emails" && !path.where) draft.emails = emailsOf(value);
  else if (attribute === "emails") setEmails(draft, path, value);
  else if (attribute.startsWith("emails."))
    setEmails(draft, { attribute: "emails", sub: attribute.slice("emails.".length) }, value);
};

const setName = (draft: Draft, value: unknown): void => {
  if (value == null) {
    Object.assign(draft, { formatted: null, givenName: null, familyName: null });
    return;
  }
  if (!isJsonObject(value)) throw invalidValue("name", "must be an object");
  for (const [name, part] of Object.entries(value))
    setAttribute(draft, { attribute: `name.${name.toLowerCase()}` }, part);
};

/**
 * Sets every attribute of an object but those that are read-only. Entra names them by whole paths, such as
 * `name.givenName` or `emails[type eq "work"].value`.
 */
export const setAttributes = (draft: Draft, values: Readonly<Record<string, unknown>>): Draft => {
  for (const [name, value] of Object.entries(values)) {
    const path = name.includes("[") ? parsePath(name) : { attribute: attributeName(name) };
    if (!READ_ONLY.has(path.attribute)) setAttribute(draft, path, value);
  }
  return draft;
};

/** Returns the address of the account: the primary one, else that of work, else the first, else userName. */
export const addressOf = ({ emails, userName }: Draft): { email: string; isGiven: boolean } => {
  const best =
    emails.find(({ primary }) => primary === true) ??
    emails.find(({ type }) => type?.toLowerCase() === "work") ??
    emails[0];
  const text = best?.value ?? userName ?? "";
  const email = normaliseEmail(text);
  if (isMailAddress(email)) return { email, isGiven: best?.value !== undefined };
  throw invalidValue("emails", "must have a plain email address, if userName is none");
};

/** Returns the userName. @throws ScimError invalidValue without one */
export const userNameOf = ({ userName }: Draft): string => {
  if (userName === null) throw invalidValue("userName", "is required");
  return userName;
};

/** Returns the name that Laurel shows; undefined if the client gives none. */
const givenNameOf = ({ displayName, formatted, givenName, familyName }: Draft): string | undefined => {
  const whole = [givenName, familyName].filter((part) => part !== null).join(" ");
  const names = [displayName, formatted, whole].filter((name): name is string => name !== null);
  return names.find((name) => [...name].length >= NAME_MIN)?.slice(0, NAME_MAX);
};

/** Returns the name that Laurel shows, and whether the client gives it. */
export const nameOf = (draft: Draft, email: string): { name: string; isGiven: boolean } => {
  const given = givenNameOf(draft);
  return { name: given ?? provisionalName(email), isGiven: given !== undefined };
};
