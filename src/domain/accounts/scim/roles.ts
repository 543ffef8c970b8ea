import { sql } from "kysely";
import { audit, auditAll } from "../audit/audit.ts";
import { forgetSessions } from "../auth/sessions.ts";
import { lockTenant } from "../tenants/tenant.ts";
import { type Role, ROLES } from "../../kernel/caller.ts";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";

/** Roles that groups can give, the one first that counts for a person of several groups. */
export const SCIM_ROLES = ROLES.filter((role): role is ScimRole => role !== "OWNER");
type ScimRole = Exclude<Role, "OWNER">;

/** Groups that give roles. */
export const SCIM_MAPPINGS_MAX = 100;

/** A group of the identity provider, named by either, and the role of its members. */
type GroupRole = {
  displayName?: string | undefined;
  externalId?: string | undefined;
  role: ScimRole;
};

type ScimSettings = { defaultRole: ScimRole; groups: GroupRole[] };

/** Returns a tenant's settings, or those of one that has none yet. */
export const readSettings = async ({ db }: Work, tenantId: string): Promise<ScimSettings> => {
  const { rows } = await sql<ScimSettings>`
    select default_role as "defaultRole", group_roles as groups from scim_settings
    where tenant_id = ${tenantId}::uuid`.execute(db);
  return rows[0] ?? { defaultRole: "VIEWER", groups: [] };
};

/** A group as a mapping names it. */
type NamedGroup = { displayName: string; externalId: string | null };

/** Whether the mapping names a group of this id, or of this name in lower case. */
const names = (mapping: GroupRole, externalId: string | null, lowerName: string): boolean =>
  (mapping.externalId !== undefined && mapping.externalId === externalId) ||
  mapping.displayName?.toLowerCase() === lowerName;

/** Returns the role that counts of several; undefined of none. */
const highestOf = (roles: readonly ScimRole[]): ScimRole | undefined =>
  SCIM_ROLES.find((role) => roles.includes(role));

/** Returns the role that a group gives; undefined for one that gives none. */
export const roleOfGroup = (
  { groups }: ScimSettings,
  { displayName, externalId }: NamedGroup,
): ScimRole | undefined => {
  const lowerName = displayName.toLowerCase();
  return highestOf(groups.filter((one) => names(one, externalId, lowerName)).map(({ role }) => role));
};

const keyOf = ({ displayName, externalId }: GroupRole): string =>
  externalId === undefined ? `name ${displayName?.toLowerCase()}` : `id ${externalId}`;

/** @throws VALIDATION_ERROR for a group without a name, or with two, or named twice */
const checkMappings = (groups: readonly GroupRole[]): void => {
  const seen = new Set<string>();
  for (const [index, group] of groups.entries()) {
    if ((group.displayName === undefined) === (group.externalId === undefined))
      throw invalid(`groups.${index}`, "needs either displayName or externalId");
    if (seen.has(keyOf(group))) throw invalid(`groups.${index}`, "is named twice");
    seen.add(keyOf(group));
  }
};

/**
 * Replaces the settings. The roles of members follow by `applyRoles`.
 * @returns the settings before
 */
export const writeSettings = async (
  work: Work,
  tenantId: string,
  settings: ScimSettings,
): Promise<ScimSettings> => {
  checkMappings(settings.groups);
  await lockTenant(work, tenantId);
  const before = await readSettings(work, tenantId);
  const { defaultRole, groups } = settings;
  await sql`
    insert into scim_settings (tenant_id, default_role, group_roles, updated_at)
    values (${tenantId}::uuid, ${defaultRole}, ${JSON.stringify(groups)}::jsonb,
      ${work.now.toISOString()}::timestamptz)
    on conflict (tenant_id) do update set default_role = excluded.default_role,
      group_roles = excluded.group_roles, updated_at = excluded.updated_at`.execute(work.db);
  const target = { type: "scim_settings", id: tenantId };
  await audit(work, { action: "scim.updated", target, tenantId, data: { defaultRole, groups } });
  return before;
};

const idsOf = (ids: readonly string[]) => sql`${`{${ids.join(",")}}`}::uuid[]`;

type Group = NamedGroup & { id: string };

const groupsOf = async ({ db }: Work, tenantId: string): Promise<Group[]> => {
  const { rows } = await sql<Group>`
    select id, display_name as "displayName", external_id as "externalId" from scim_groups
    where tenant_id = ${tenantId}::uuid`.execute(db);
  return rows;
};

/**
 * Returns the roles that groups give these users; those whose groups give none are left out. The role of each
 * group is found once: a tenant has many more memberships than groups.
 */
export const rolesByGroups = async (
  work: Work,
  tenantId: string,
  userIds: readonly string[],
): Promise<Map<string, ScimRole>> => {
  const settings = await readSettings(work, tenantId);
  if (settings.groups.length === 0) return new Map();
  const giving = (await groupsOf(work, tenantId)).flatMap((group) => {
    const role = roleOfGroup(settings, group);
    return role === undefined ? [] : [{ id: group.id, place: SCIM_ROLES.indexOf(role) }];
  });
  if (giving.length === 0) return new Map();
  const { rows } = await sql<{ userId: string; place: number }>`
    select m.user_id as "userId", min(x.place) as place
    from json_to_recordset(${JSON.stringify(giving)}::json) as x(id uuid, place int)
    join scim_group_members m on m.group_id = x.id
    where m.user_id = any(${idsOf(userIds)})
    group by m.user_id`.execute(work.db);
  return new Map(rows.map(({ userId, place }) => [userId, SCIM_ROLES[place]!]));
};

/**
 * Gives members the highest role of their groups, or the default role where these give none. OWNERs stay
 * what they are: nobody becomes one, or ceases to be one, by a group. The tenant is locked.
 */
export const applyRoles = async (work: Work, tenantId: string, userIds: readonly string[]): Promise<void> => {
  if (userIds.length === 0) return;
  const { defaultRole } = await readSettings(work, tenantId);
  const byGroups = await rolesByGroups(work, tenantId, userIds);
  const { rows: members } = await sql<{ id: string; role: ScimRole }>`
    select id, role from users where tenant_id = ${tenantId}::uuid and id = any(${idsOf(userIds)})
      and role <> 'OWNER' and status <> 'PENDING' order by id for update`.execute(work.db);
  const changed = members
    .map(({ id, role: from }) => ({ id, from, to: byGroups.get(id) ?? defaultRole }))
    .filter(({ from, to }) => from !== to);
  for (const to of new Set(changed.map((change) => change.to))) {
    const ids = changed.filter((change) => change.to === to).map(({ id }) => id);
    await sql`
      update users set role = ${to}, updated_at = ${work.now.toISOString()}::timestamptz
      where id = any(${idsOf(ids)})`.execute(work.db);
  }
  const entries = changed.map(({ id, from, to }) => {
    const data = { from, to, by: "scim" };
    return { action: "member.role_changed", target: { type: "user", id }, tenantId, data };
  });
  await auditAll(work, entries);
  if (changed.length > 0) work.afterCommit(forgetSessions);
};

const membersOf = async ({ db }: Work, groupIds: readonly string[]): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    select distinct user_id as id from scim_group_members
    where group_id = any(${idsOf(groupIds)})`.execute(db);
  return rows.map(({ id }) => id);
};

/** Gives the members of groups their roles anew that give another one since the settings have changed. */
export const followSettings = async (
  work: Work,
  tenantId: string,
  before: ScimSettings,
  after: ScimSettings,
): Promise<void> => {
  const changed = (await groupsOf(work, tenantId)).filter(
    (group) => roleOfGroup(before, group) !== roleOfGroup(after, group),
  );
  const ids = changed.map(({ id }) => id);
  if (ids.length > 0) await applyRoles(work, tenantId, await membersOf(work, ids));
};
