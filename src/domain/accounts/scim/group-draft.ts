import { isJsonObject } from "../../kernel/json.ts";
import { isId } from "../../kernel/ids.ts";
import { textOf } from "./draft.ts";
import { invalidValue, ScimError } from "./error.ts";
import { attributeName, type ScimPath } from "./filter.ts";
import { type PatchOperation, requireWritable, valuesOf } from "./patch.ts";

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
