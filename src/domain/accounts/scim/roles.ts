import { sql } from "kysely";
import { auditAll } from "../audit/audit.ts";
import { forgetSessions } from "../auth/sessions.ts";
import type { Work } from "../../kernel/work.ts";
import {
  type NamedGroup,
  readSettings,
  roleOfGroup,
  SCIM_ROLES,
  type ScimRole,
  type ScimSettings,
} from "./settings.ts";

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
  await work.em.flush();
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
