import { isMailAddress, normaliseEmail } from "../email/address.ts";
import { provisionalName } from "../oauth/provider.ts";
import {
  attributeName,
  type Comparison,
  invalidValue,
  parsePath,
  ScimError,
  type ScimPath,
} from "./filter.ts";
import { NAME_MAX, NAME_MIN } from "../tenants/tenant.ts";
import { isId } from "../../kernel/ids.ts";
import { isJsonObject } from "../../kernel/json.ts";

/** Characters of a text, such as a userName. */
export const SCIM_TEXT_MAX = 255;
/** Addresses that a client may name; one is kept. */
export const SCIM_EMAILS_MAX = 20;

type DraftEmail = { value?: string; type?: string; primary?: boolean };
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
const READ_ONLY: ReadonlySet<string> = new Set(["id", "meta", "groups", "roles", "schemas"]);

/** Entra's older form wraps a single value as `[{"value": …}]`. */
const unwrapped = (value: unknown): unknown => {
  const only: unknown = Array.isArray(value) && value.length === 1 ? value[0] : value;
  return isJsonObject(only) && "value" in only ? only["value"] : only;
};

/** Returns the text that a client gives; null for none or an empty one. @throws ScimError invalidValue */
const textOf = (attribute: string, given: unknown): string | null => {
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
const namesEmail =
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
const keepOnePrimary = ({ emails }: Draft, brought: readonly DraftEmail[]): void => {
  if (!brought.some(({ primary }) => primary === true)) return;
  for (const email of emails) if (!brought.includes(email)) email.primary = false;
};

/**
 * Sets an attribute of a user; one that is unknown here is left out, as RFC 7644, 3.3 permits.
 * @throws ScimError invalidValue
 */
const setAttribute = (draft: Draft, path: ScimPath, value: unknown): void => {
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

/** Operations of one PATCH. */
export const SCIM_OPERATIONS_MAX = 1_000;

type PatchOperation = {
  op: "add" | "replace" | "remove";
  /** Undefined: `value` has the attributes. */
  path: ScimPath | undefined;
  value: unknown;
};

const invalidSyntax = (message: string): ScimError =>
  new ScimError("VALIDATION_ERROR", "invalidSyntax", message);

/** Returns an own field, whatever the case of its name. */
const patchedField = (value: Readonly<Record<string, unknown>>, name: string): unknown =>
  Object.entries(value).find(([own]) => own.toLowerCase() === name)?.[1];

const pathOf = (given: unknown): ScimPath | undefined => {
  if (given == null) return undefined;
  if (typeof given !== "string") throw invalidSyntax("path must be a text");
  return given.trim() === "" ? undefined : parsePath(given);
};

const operationOf = (given: unknown): PatchOperation => {
  if (!isJsonObject(given)) throw invalidSyntax("Operations must be objects");
  const word = patchedField(given, "op");
  const op = typeof word === "string" ? word.toLowerCase() : undefined;
  if (op !== "add" && op !== "replace" && op !== "remove")
    throw invalidSyntax("op must be add, replace or remove");
  const path = pathOf(patchedField(given, "path"));
  if (op === "remove" && !path) throw new ScimError("VALIDATION_ERROR", "noTarget", "remove needs a path");
  return { op, path, value: patchedField(given, "value") };
};

/**
 * Reads the body of a PATCH (RFC 7644, 3.5.2), with `op` in any case as Entra writes it.
 * @throws ScimError invalidSyntax, invalidPath, noTarget
 */
export const readPatch = (body: Readonly<Record<string, unknown>>): PatchOperation[] => {
  const operations = patchedField(body, "operations");
  if (!Array.isArray(operations) || operations.length === 0)
    throw invalidSyntax("Operations must be a list with at least one operation");
  if (operations.length > SCIM_OPERATIONS_MAX)
    throw invalidSyntax(`Operations may be at most ${SCIM_OPERATIONS_MAX}`);
  return operations.map(operationOf);
};

/** Returns the attributes of an operation without a path. @throws ScimError invalidValue */
const valuesOf = ({ value }: PatchOperation): Record<string, unknown> => {
  if (isJsonObject(value)) return value;
  throw invalidValue("value", "must be an object, since the operation has no path");
};

/** Refuses changes of what is read-only. @throws ScimError mutability */
const requireWritable = ({ attribute }: ScimPath): void => {
  const [root = ""] = attribute.split(".", 1);
  if (!READ_ONLY.has(root)) return;
  const hint = root === "roles" ? ": roles follow from groups" : "";
  throw new ScimError("VALIDATION_ERROR", "mutability", `${root} is read-only${hint}`);
};

const removeAttribute = (draft: Draft, path: ScimPath): void => {
  const { attribute, where, sub } = path;
  if (attribute === "username" || attribute === "active")
    throw invalidValue(attribute === "active" ? "active" : "userName", "cannot be removed");
  if (attribute === "emails" && where && sub === undefined) {
    const isNamed = namesEmail(where);
    draft.emails = draft.emails.filter((email) => !isNamed(email));
  } else setAttribute(draft, path, null);
};

/** Applies operations to a user, all or none. @throws ScimError */
export const patchDraft = (draft: Draft, operations: readonly PatchOperation[]): Draft => {
  const next: Draft = { ...draft, emails: draft.emails.map((email) => ({ ...email })) };
  for (const operation of operations) {
    const { op, path, value } = operation;
    if (!path) setAttributes(next, valuesOf(operation));
    else {
      requireWritable(path);
      if (op === "remove") removeAttribute(next, path);
      else if (op === "add" && path.attribute === "emails" && !path.where) addEmails(next, value);
      else setAttribute(next, path, value);
    }
  }
  return next;
};

/** An added address takes the place of one of its type. */
const addEmails = (draft: Draft, value: unknown): void => {
  const added: Draft = { ...draft, emails: [] };
  setAttribute(added, { attribute: "emails" }, value);
  const types = new Set(added.emails.map(({ type }) => type));
  const kept = draft.emails.filter(({ type }) => !types.has(type));
  const emails = [...added.emails, ...kept];
  if (emails.length > SCIM_EMAILS_MAX) throw invalidValue("emails", `may be at most ${SCIM_EMAILS_MAX}`);
  draft.emails = emails;
  keepOnePrimary(draft, added.emails);
};

/** Members of a group, and of one request. */
export const SCIM_MEMBERS_MAX = 5_000;

/** What a client says of a group, its members by id. */
export type GroupDraft = { displayName: string | null; externalId: string | null; members: Set<string> };

const memberOf = (given: unknown): string => {
  const fields = isJsonObject(given) ? Object.entries(given) : [];
  const value =
    typeof given === "string" ? given : fields.find(([name]) => attributeName(name) === "value")?.[1];
  if (typeof value === "string" && isId(value)) return value.toLowerCase();
  throw invalidValue("members", "must be ids of users of this tenant");
};

const membersOf = (value: unknown): string[] => {
  const list: unknown[] = Array.isArray(value) ? value : value == null ? [] : [value];
  if (list.length > SCIM_MEMBERS_MAX) throw tooMany();
  return list.map(memberOf);
};

const tooMany = (): ScimError => invalidValue("members", `may be at most ${SCIM_MEMBERS_MAX}`);

const setField = (draft: GroupDraft, name: string, value: unknown): void => {
  if (name === "displayname") draft.displayName = textOf("displayName", value);
  else if (name === "externalid") draft.externalId = textOf("externalId", value);
  else if (name === "members") draft.members = new Set(membersOf(value));
};

/** Reads the group of a POST or PUT; attributes that are unknown here are left out. @throws ScimError */
export const readGroup = (body: Readonly<Record<string, unknown>>): GroupDraft => {
  const draft: GroupDraft = { displayName: null, externalId: null, members: new Set() };
  for (const [name, value] of Object.entries(body)) setField(draft, attributeName(name), value);
  return draft;
};

/** Returns the displayName. @throws ScimError invalidValue without one */
export const displayNameOf = ({ displayName }: GroupDraft): string => {
  if (displayName === null) throw invalidValue("displayName", "is required");
  return displayName;
};

/** Returns the members that a path names: `members[value eq "…"]`. @throws ScimError invalidPath */
const namedBy = ({ where }: ScimPath): string[] => {
  if (where?.attribute === "value") return [memberOf(where.value)];
  throw new ScimError("VALIDATION_ERROR", "invalidPath", "path: members are named by their value");
};

const add = (draft: GroupDraft, ids: readonly string[]): void => {
  for (const id of ids) draft.members.add(id);
  if (draft.members.size > SCIM_MEMBERS_MAX) throw tooMany();
};

const remove = (draft: GroupDraft, path: ScimPath, value: unknown): void => {
  if (path.attribute !== "members") return setField(draft, path.attribute, null);
  // Without a filter Entra names them in the value; without that too it means all.
  const ids = path.where ? namedBy(path) : value == null ? [...draft.members] : membersOf(value);
  for (const id of ids) draft.members.delete(id);
};

const setByPath = (draft: GroupDraft, path: ScimPath, { op, value }: PatchOperation): void => {
  if (path.attribute !== "members") setField(draft, path.attribute, value);
  else if (path.where) add(draft, namedBy(path));
  else if (op === "add") add(draft, membersOf(value));
  else setField(draft, "members", value);
};

const setByValue = (draft: GroupDraft, operation: PatchOperation): void => {
  for (const [name, value] of Object.entries(valuesOf(operation))) {
    const attribute = attributeName(name);
    setByPath(draft, { attribute }, { ...operation, value });
  }
};

/** Applies operations to a group, all or none. @throws ScimError */
export const patchGroup = (known: GroupDraft, operations: readonly PatchOperation[]): GroupDraft => {
  const draft = { ...known, members: new Set(known.members) };
  for (const operation of operations) {
    const { op, path, value } = operation;
    if (!path) setByValue(draft, operation);
    else {
      requireWritable(path);
      if (op === "remove") remove(draft, path, value);
      else setByPath(draft, path, operation);
    }
  }
  return draft;
};
