import { createHash } from "node:crypto";
import type { Role } from "../../kernel/caller.ts";
import { type Draft, emptyDraft } from "./draft.ts";
import { OtherVersion } from "./error.ts";

export const USER_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:User";
export const GROUP_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Group";

/** A member as stored, with what the identity provider has said of them. */
export type UserRow = {
  id: string;
  email: string;
  name: string;
  role: Role;
  isActive: boolean;
  userName: string | null;
  externalId: string | null;
  displayName: string | null;
  formatted: string | null;
  givenName: string | null;
  familyName: string | null;
  /** Whether the provider gives an address beside the userName. */
  givesEmail: boolean | null;
  createdAt: Date | string;
  updatedAt: Date | string;
};

export type GroupRow = {
  id: string;
  displayName: string;
  externalId: string | null;
  createdAt: Date | string;
  updatedAt: Date | string;
  members: number | string;
  /** Changes with the members. */
  membersHash: string | null;
};

/** A name of another resource. */
export type Reference = { value: string; display: string };
/** A resource as the protocol shows it, with its version and address in `meta`. */
export type Resource = Record<string, unknown> & {
  id: string;
  meta: { resourceType: string; created: string; lastModified: string; location: string; version: string };
};

/** Returns what the provider has said of a member, or would say of one that it has not made. */
export const draftOf = (row: UserRow): Draft => {
  const { email, isActive: active, userName, externalId, displayName } = row;
  const emails = [{ value: email, type: "work", primary: true }];
  if (userName === null) return { ...emptyDraft(active), userName: email, displayName: row.name, emails };
  const { formatted, givenName, familyName, givesEmail } = row;
  const draft = { userName, externalId, active, displayName, formatted, givenName, familyName };
  return { ...draft, emails: givesEmail === true ? emails : [] };
};

const metaOf = (
  what: "User" | "Group",
  { id, createdAt, updatedAt }: { id: string; createdAt: Date | string; updatedAt: Date | string },
  { base, fields }: { base: string; fields: unknown },
): Resource["meta"] => {
  const hash = createHash("sha256").update(JSON.stringify(fields)).digest("base64url").slice(0, 22);
  return {
    resourceType: what,
    created: new Date(createdAt).toISOString(),
    lastModified: new Date(updatedAt).toISOString(),
    location: `${base}/${what}s/${id}`,
    version: `W/"${hash}"`,
  };
};

const withoutNull = (fields: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));

/** Converts a member to the protocol's representation. `base`: the address of the service. */
export const showUser = (row: UserRow, groups: readonly Reference[], base: string): Resource => {
  const draft = draftOf(row);
  const { formatted, givenName, familyName } = draft;
  const fields = {
    ...withoutNull({ externalId: draft.externalId }),
    userName: draft.userName,
    name: withoutNull({ formatted: formatted ?? row.name, givenName, familyName }),
    displayName: draft.displayName ?? row.name,
    active: row.isActive,
    emails: [{ value: row.email, type: "work", primary: true }],
    groups: groups.map(({ value, display }) => {
      return { value, display, type: "direct", $ref: `${base}/Groups/${value}` };
    }),
    roles: [{ value: row.role, primary: true }],
  };
  const meta = metaOf("User", row, { base, fields });
  return { schemas: [USER_SCHEMA], id: row.id, ...fields, meta };
};

/** Converts a group; `members` undefined leaves them out. */
export const showGroup = (
  row: GroupRow,
  members: readonly Reference[] | undefined,
  base: string,
): Resource => {
  const { id, displayName, externalId, membersHash } = row;
  const fields = { ...withoutNull({ externalId }), displayName };
  const shown = members?.map(({ value, display }) => {
    return { value, display, type: "User", $ref: `${base}/Users/${value}` };
  });
  const meta = metaOf("Group", row, { base, fields: { ...fields, membersHash } });
  return { schemas: [GROUP_SCHEMA], id, ...fields, ...(shown ? { members: shown } : {}), meta };
};

/** Compares versions weakly. @throws OtherVersion when If-Match names other versions than this one */
export const requireVersion = (ifMatch: string, { meta }: Resource): void => {
  if (ifMatch.trim() === "*") return;
  const tags = ifMatch.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  if (!tags.includes(meta.version.slice(2))) throw new OtherVersion();
};
