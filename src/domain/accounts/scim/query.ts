import { createHash } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import { type Draft, emptyDraft } from "./draft.ts";
import { type Comparison, OtherVersion, ScimError, type ScimLiteral } from "./filter.ts";
import type { Role } from "../../kernel/caller.ts";
import { isId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";

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
  createdAt: Date;
  updatedAt: Date;
};

export type GroupRow = {
  id: string;
  displayName: string;
  externalId: string | null;
  createdAt: Date;
  updatedAt: Date;
  members: number;
  /** Changes with the members. */
  membersHash: string | null;
};

/** A name of another resource. */
type Reference = { value: string; display: string };
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
  { id, createdAt, updatedAt }: { id: string; createdAt: Date; updatedAt: Date },
  { base, fields }: { base: string; fields: unknown },
): Resource["meta"] => {
  const hash = createHash("sha256").update(JSON.stringify(fields)).digest("base64url").slice(0, 22);
  return {
    resourceType: what,
    created: createdAt.toISOString(),
    lastModified: updatedAt.toISOString(),
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

/** Resources of one page. */
export const SCIM_PAGE_MAX = 100;
/** Members in one answer, beyond which a page of groups ends. */
export const SCIM_SHOWN_MEMBERS_MAX = 20_000;
/** Groups of all users in one answer, beyond which a page of users ends. */
export const SCIM_SHOWN_GROUPS_MAX = 20_000;

/** Where a page begins, from 1, and how many resources it has at most. */
export type ScimPage = { startIndex: number; count: number };
type Condition = RawBuilder<unknown>;

const NONE = sql`false`;

const textIs = (column: Condition, value: ScimLiteral): Condition =>
  typeof value === "string" ? sql`${column} = ${value}` : NONE;
const lowerIs = (column: Condition, value: ScimLiteral): Condition =>
  typeof value === "string" ? sql`lower(${column}) = lower(${value})` : NONE;
const idIs = (column: Condition, value: ScimLiteral): Condition =>
  typeof value === "string" && isId(value) ? sql`${column} = ${value}::uuid` : NONE;

type Conditions = ReadonlyMap<string, (value: ScimLiteral) => Condition>;

const IS_ACTIVE = sql`(u.status = 'ACTIVE' and u.disabled_at is null)`;

const OF_USERS: Conditions = new Map([
  ["id", (value) => idIs(sql`u.id`, value)],
  ["username", (value) => lowerIs(sql`coalesce(s.user_name, u.email)`, value)],
  ["externalid", (value) => textIs(sql`s.external_id`, value)],
  ["emails", (value) => lowerIs(sql`u.email`, value)],
  ["emails.value", (value) => lowerIs(sql`u.email`, value)],
  ["displayname", (value) => lowerIs(sql`coalesce(s.display_name, u.name)`, value)],
  ["active", (value) => sql`${IS_ACTIVE} = ${String(value).toLowerCase() === "true"}`],
]);

const hasMember = (value: ScimLiteral): Condition => sql`exists (
  select from scim_group_members m where m.group_id = g.id and ${idIs(sql`m.user_id`, value)})`;

const OF_GROUPS: Conditions = new Map([
  ["id", (value) => idIs(sql`g.id`, value)],
  ["displayname", (value) => lowerIs(sql`g.display_name`, value)],
  ["externalid", (value) => textIs(sql`g.external_id`, value)],
  ["members", hasMember],
  ["members.value", hasMember],
]);

const conditionOf = (conditions: Conditions, comparisons: readonly Comparison[]): Condition => {
  const parts = comparisons.map(({ attribute, value }) => {
    const condition = conditions.get(attribute);
    if (condition) return condition(value);
    const names = [...conditions.keys()].join(", ");
    const message = `filter: by ${attribute} is not served here: by ${names} it is`;
    throw new ScimError("VALIDATION_ERROR", "invalidFilter", message);
  });
  return parts.length === 0 ? sql`true` : sql.join(parts, sql` and `);
};

/**
 * Whom an identity provider sees: whom it has made, and members with addresses of the tenant's verified
 * domains. Others, such as a partner who was invited, are none of its people.
 */
const usersFrom = (tenantId: string): Condition => sql`
  users u left join scim_users s on s.user_id = u.id
  where u.tenant_id = ${tenantId}::uuid and u.status <> 'PENDING'
    and (s.user_id is not null or split_part(u.email, '@', 2) in (
      select domain from sso_domains
      where tenant_id = ${tenantId}::uuid and verified_at is not null))`;

const USER_COLUMNS = sql`
  u.id, u.email, u.name, u.role, ${IS_ACTIVE} as "isActive", s.user_name as "userName",
  s.external_id as "externalId", s.display_name as "displayName", s.formatted_name as formatted,
  s.given_name as "givenName", s.family_name as "familyName", s.gives_email as "givesEmail",
  u.created_at as "createdAt", greatest(u.updated_at, s.updated_at) as "updatedAt"`;

const countOf = async ({ db }: Work, from: Condition): Promise<number> => {
  const { rows } = await sql<{ total: number }>`select count(*) as total from ${from}`.execute(db);
  return rows[0]?.total ?? 0;
};

/** Returns a page of the users that comparisons name, the oldest first, and how many there are. */
export const findUsers = async (
  work: Work,
  tenantId: string,
  comparisons: readonly Comparison[],
  { startIndex, count }: ScimPage,
): Promise<{ rows: UserRow[]; total: number }> => {
  const from = sql`${usersFrom(tenantId)} and ${conditionOf(OF_USERS, comparisons)}`;
  const total = await countOf(work, from);
  if (count === 0 || startIndex > total) return { rows: [], total };
  const { rows } = await sql<UserRow>`
    select ${USER_COLUMNS} from ${from}
    order by u.created_at, u.id limit ${count} offset ${startIndex - 1}`.execute(work.db);
  return { rows, total };
};

/** Returns a user that the provider sees. */
export const findUser = async ({ db }: Work, tenantId: string, id: string): Promise<UserRow | undefined> => {
  if (!isId(id)) return undefined;
  const { rows } = await sql<UserRow>`
    select ${USER_COLUMNS} from ${usersFrom(tenantId)} and u.id = ${id}::uuid`.execute(db);
  return rows[0];
};

/** Returns which of these ids are users that the provider sees. */
export const visibleOf = async (
  { db }: Work,
  tenantId: string,
  ids: readonly string[],
): Promise<Set<string>> => {
  const { rows } = await sql<{ id: string }>`
    select u.id from ${usersFrom(tenantId)} and u.id = any(${`{${ids.join(",")}}`}::uuid[])`.execute(db);
  return new Set(rows.map(({ id }) => id));
};

type Listed = Reference & { of: string };

const byOwner = (rows: readonly Listed[]): Map<string, Reference[]> => {
  const lists = new Map<string, Reference[]>();
  for (const { of, value, display } of rows) {
    const list = lists.get(of) ?? [];
    list.push({ value, display });
    lists.set(of, list);
  }
  return lists;
};

/** Returns the groups of users, by user. */
export const groupsOfUsers = async (
  { db }: Work,
  tenantId: string,
  userIds: readonly string[],
): Promise<Map<string, Reference[]>> => {
  const { rows } = await sql<Listed>`
    select m.user_id as of, g.id as value, g.display_name as display
    from scim_group_members m join scim_groups g on g.id = m.group_id
    where g.tenant_id = ${tenantId}::uuid and m.user_id = any(${`{${userIds.join(",")}}`}::uuid[])
    order by g.display_name, g.id`.execute(db);
  return byOwner(rows);
};

/** Returns how many groups users have. */
export const groupCountsOf = async (
  { db }: Work,
  tenantId: string,
  userIds: readonly string[],
): Promise<Map<string, number>> => {
  const { rows } = await sql<{ id: string; count: number }>`
    select m.user_id as id, count(*) as count
    from scim_group_members m join scim_groups g on g.id = m.group_id
    where g.tenant_id = ${tenantId}::uuid and m.user_id = any(${`{${userIds.join(",")}}`}::uuid[])
    group by m.user_id`.execute(db);
  return new Map(rows.map(({ id, count }) => [id, count]));
};

const groupsFrom = (tenantId: string): Condition => sql`
  scim_groups g where g.tenant_id = ${tenantId}::uuid`;

const GROUP_COLUMNS = sql`
  g.id, g.display_name as "displayName", g.external_id as "externalId", g.created_at as "createdAt",
  g.updated_at as "updatedAt",
  (select count(*) from scim_group_members m where m.group_id = g.id) as members,
  (select md5(string_agg(m.user_id::text, ',' order by m.user_id)) from scim_group_members m
    where m.group_id = g.id) as "membersHash"`;

/** Returns a page of groups by name, and how many there are. */
export const findGroups = async (
  work: Work,
  tenantId: string,
  comparisons: readonly Comparison[],
  { startIndex, count }: ScimPage,
): Promise<{ rows: GroupRow[]; total: number }> => {
  const from = sql`${groupsFrom(tenantId)} and ${conditionOf(OF_GROUPS, comparisons)}`;
  const total = await countOf(work, from);
  if (count === 0 || startIndex > total) return { rows: [], total };
  const { rows } = await sql<GroupRow>`
    select ${GROUP_COLUMNS} from ${from}
    order by lower(g.display_name), g.id limit ${count} offset ${startIndex - 1}`.execute(work.db);
  return { rows, total };
};

/** Returns a group of the tenant. */
export const findGroup = async (
  { db }: Work,
  tenantId: string,
  id: string,
): Promise<GroupRow | undefined> => {
  if (!isId(id)) return undefined;
  const { rows } = await sql<GroupRow>`
    select ${GROUP_COLUMNS} from ${groupsFrom(tenantId)} and g.id = ${id}::uuid`.execute(db);
  return rows[0];
};

/** Returns the members of groups, by group, in the order in which they joined Laurel. */
export const membersOfGroups = async (
  { db }: Work,
  groupIds: readonly string[],
): Promise<Map<string, Reference[]>> => {
  const { rows } = await sql<Listed>`
    select m.group_id as of, u.id as value, u.name as display
    from scim_group_members m join users u on u.id = m.user_id
    where m.group_id = any(${`{${groupIds.join(",")}}`}::uuid[]) order by u.created_at, u.id`.execute(db);
  return byOwner(rows);
};
