import { isJsonObject } from "../../kernel/json.ts";
import {
  type Draft,
  keepOnePrimary,
  namesEmail,
  READ_ONLY,
  SCIM_EMAILS_MAX,
  setAttribute,
  setAttributes,
} from "./draft.ts";
import { invalidValue, ScimError } from "./error.ts";
import { parsePath, type ScimPath } from "./filter.ts";

/** Operations of one PATCH. */
export const SCIM_OPERATIONS_MAX = 1_000;

export type PatchOperation = {
  op: "add" | "replace" | "remove";
  /** Undefined: `value` has the attributes. */
  path: ScimPath | undefined;
  value: unknown;
};

const invalidSyntax = (message: string): ScimError =>
  new ScimError("VALIDATION_ERROR", "invalidSyntax", message);

/** Returns an own field, whatever the case of its name. */
const fieldOf = (value: Readonly<Record<string, unknown>>, name: string): unknown =>
  Object.entries(value).find(([own]) => own.toLowerCase() === name)?.[1];

const pathOf = (given: unknown): ScimPath | undefined => {
  if (given == null) return undefined;
  if (typeof given !== "string") throw invalidSyntax("path must be a text");
  return given.trim() === "" ? undefined : parsePath(given);
};

const operationOf = (given: unknown): PatchOperation => {
  if (!isJsonObject(given)) throw invalidSyntax("Operations must be objects");
  const word = fieldOf(given, "op");
  const op = typeof word === "string" ? word.toLowerCase() : undefined;
  if (op !== "add" && op !== "replace" && op !== "remove")
    throw invalidSyntax("op must be add, replace or remove");
  const path = pathOf(fieldOf(given, "path"));
  if (op === "remove" && !path) throw new ScimError("VALIDATION_ERROR", "noTarget", "remove needs a path");
  return { op, path, value: fieldOf(given, "value") };
};

/**
 * Reads the body of a PATCH (RFC 7644, 3.5.2), with `op` in any case as Entra writes it.
 * @throws ScimError invalidSyntax, invalidPath, noTarget
 */
export const readPatch = (body: Readonly<Record<string, unknown>>): PatchOperation[] => {
  const operations = fieldOf(body, "operations");
  if (!Array.isArray(operations) || operations.length === 0)
    throw invalidSyntax("Operations must be a list with at least one operation");
  if (operations.length > SCIM_OPERATIONS_MAX)
    throw invalidSyntax(`Operations may be at most ${SCIM_OPERATIONS_MAX}`);
  return operations.map(operationOf);
};

/** Returns the attributes of an operation without a path. @throws ScimError invalidValue */
export const valuesOf = ({ value }: PatchOperation): Record<string, unknown> => {
  if (isJsonObject(value)) return value;
  throw invalidValue("value", "must be an object, since the operation has no path");
};

/** Refuses changes of what is read-only. @throws ScimError mutability */
export const requireWritable = ({ attribute }: ScimPath): void => {
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
