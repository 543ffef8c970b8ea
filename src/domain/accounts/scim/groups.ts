import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { lockTenant } from "../tenants/tenant.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { type Comparison, invalidValue, notUnique } from "./filter.ts";
import { displayNameOf, type GroupDraft } from "./draft.ts";
import {
  findGroup,
  findGroups,
  type GroupRow,
  membersOfGroups,
  requireVersion,
  type Resource,
  SCIM_SHOWN_MEMBERS_MAX,
  type ScimPage,
  showGroup,
  visibleOf,
} from "./query.ts";
import { applyRoles, readSettings, roleOfGroup } from "./roles.ts";
import type { Change, ScimScope } from "./users.ts";

/** Groups of a tenant. */
export const SCIM_GROUPS_MAX = 500;
/** Members that an entry of the audit log names. */
const NAMED_MAX = 50;

/** As many leading groups as have SCIM_SHOWN_MEMBERS_MAX members together, and at least one. */
const bounded = (rows: readonly GroupRow[]): GroupRow[] => {
  let members = 0;
  return rows.filter((row, index) => {
    members += row.members;
    return index === 0 || members <= SCIM_SHOWN_MEMBERS_MAX;
  });
};

type GroupQuery = { filter: readonly Comparison[]; page: ScimPage; withMembers: boolean };

/** Returns a page of groups, and how many match. @throws ScimError invalidFilter */
export const listScimGroups = async (
  work: Work,
  { tenantId, base }: ScimScope,
  { filter, page, withMembers }: GroupQuery,
): Promise<{ resources: Resource[]; total: number }> => {
  const { rows, total } = await findGroups(work, tenantId, filter, page);
  if (!withMembers) return { resources: rows.map((row) => showGroup(row, undefined, base)), total };
  const some = bounded(rows);
  const ids = some.map(({ id }) => id);
  const members = ids.length === 0 ? new Map() : await membersOfGroups(work, ids);
  return { resources: some.map((row) => showGroup(row, members.get(row.id) ?? [], base)), total };
};

/** Returns a group. @throws NOT_FOUND also for another tenant's */
export const getScimGroup = async (
  work: Work,
  { tenantId, base }: ScimScope,
  id: string,
  withMembers = true,
): Promise<Resource> => {
  const row = await findGroup(work, tenantId, id);
  if (!row) throw notFound("Group");
  if (!withMembers) return showGroup(row, undefined, base);
  return showGroup(row, (await membersOfGroups(work, [row.id])).get(row.id) ?? [], base);
};

const requireFreeName = async (
  { db }: Work,
  tenantId: string,
  { displayName, exceptId }: { displayName: string; exceptId: string },
): Promise<void> => {
  const { rows } = await sql`
    select 1 from scim_groups where tenant_id = ${tenantId}::uuid
      and lower(display_name) = lower(${displayName}) and id <> ${exceptId}::uuid`.execute(db);
  if (rows.length > 0) throw notUnique("A group with this displayName exists already");
};

const requireUsers = async (work: Work, tenantId: string, ids: readonly string[]): Promise<void> => {
  if (ids.length === 0) return;
  const visible = await visibleOf(work, tenantId, ids);
  const unknown = ids.find((id) => !visible.has(id));
  if (unknown !== undefined) throw invalidValue("members", `${unknown} is no user of this tenant`);
};

const isFull = async ({ db }: Work, tenantId: string): Promise<boolean> => {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from scim_groups where tenant_id = ${tenantId}::uuid`.execute(db);
  return (rows[0]?.count ?? 0) >= SCIM_GROUPS_MAX;
};

const record = (
  work: Work,
  tenantId: string,
  { id, action, data }: { id: string; action: string; data: Record<string, unknown> },
): Promise<void> => audit(work, { action, target: { type: "scim_group", id }, tenantId, data });

/**
 * Makes a group; the roles of its members follow.
 * @throws ScimError uniqueness, invalidValue; CONFLICT LIMIT_REACHED
 */
export const createScimGroup = async (work: Work, scope: ScimScope, draft: GroupDraft): Promise<Resource> => {
  const { tenantId } = scope;
  const displayName = displayNameOf(draft);
  await lockTenant(work, tenantId);
  const id = newId();
  await requireFreeName(work, tenantId, { displayName, exceptId: id });
  if (await isFull(work, tenantId))
    throw conflict("LIMIT_REACHED", `A tenant has at most ${SCIM_GROUPS_MAX} groups; delete one first`);
  const { externalId } = draft;
  await sql`
    insert into scim_groups (id, tenant_id, display_name, external_id, created_at, updated_at)
    values (${id}::uuid, ${tenantId}::uuid, ${displayName}, ${externalId},
      ${work.now.toISOString()}::timestamptz, ${work.now.toISOString()}::timestamptz)`.execute(work.db);
  await record(work, tenantId, { id, action: "scim_group.created", data: { displayName, externalId } });
  await moveMembers(work, { tenantId, id }, { from: new Set(), to: draft.members });
  await followRoles(work, tenantId, { after: { ...draft, displayName }, all: draft.members });
  return getScimGroup(work, scope, id, false);
};

type Move = { from: ReadonlySet<string>; to: ReadonlySet<string> };

/** Changes who is in a group; returns who is or was, and no longer or newly. */
const moveMembers = async (
  work: Work,
  { tenantId, id }: { tenantId: string; id: string },
  { from, to }: Move,
): Promise<string[]> => {
  const added = [...to].filter((one) => !from.has(one));
  const removed = [...from].filter((one) => !to.has(one));
  await requireUsers(work, tenantId, added);
  if (removed.length > 0)
    await sql`
      delete from scim_group_members
      where group_id = ${id}::uuid and user_id = any(${`{${removed.join(",")}}`}::uuid[])`.execute(work.db);
  if (added.length > 0)
    await sql`
      insert into scim_group_members (group_id, user_id, tenant_id)
      select ${id}::uuid, unnest(${`{${added.join(",")}}`}::uuid[]), ${tenantId}::uuid`.execute(work.db);
  if (added.length + removed.length > 0) {
    const counts = { addedCount: added.length, removedCount: removed.length };
    const data = { ...counts, added: added.slice(0, NAMED_MAX), removed: removed.slice(0, NAMED_MAX) };
    await record(work, tenantId, { id, action: "scim_group.members_changed", data });
  }
  return [...added, ...removed];
};

type Named = { displayName: string; externalId: string | null };

/** Gives members of a group their roles anew, if it gave one or gives one. */
const followRoles = async (
  work: Work,
  tenantId: string,
  { before, after, all }: { before?: Named; after?: Named; all: Iterable<string> },
): Promise<void> => {
  const settings = await readSettings(work, tenantId);
  const gives = [before, after].some((group) => group && roleOfGroup(settings, group) !== undefined);
  if (gives) await applyRoles(work, tenantId, [...all]);
};

type LockedGroup = { row: GroupRow; draft: GroupDraft };

const lockGroup = async (
  work: Work,
  { tenantId, base }: ScimScope,
  { id, ifMatch }: Change,
): Promise<LockedGroup> => {
  await lockTenant(work, tenantId);
  const row = await findGroup(work, tenantId, id);
  if (!row) throw notFound("Group");
  if (ifMatch !== undefined) requireVersion(ifMatch, showGroup(row, undefined, base));
  const members = (await membersOfGroups(work, [row.id])).get(row.id) ?? [];
  const { displayName, externalId } = row;
  return { row, draft: { displayName, externalId, members: new Set(members.map(({ value }) => value)) } };
};

/**
 * Changes a group as `next` says, given what it is; the roles of those who come, go, or are in it follow.
 * @throws NOT_FOUND, OtherVersion, ScimError uniqueness, invalidValue
 */
export const changeScimGroup = async (
  work: Work,
  scope: ScimScope,
  change: Change,
  next: (known: GroupDraft) => GroupDraft,
): Promise<void> => {
  const { tenantId } = scope;
  const { row, draft: known } = await lockGroup(work, scope, change);
  const draft = next(known);
  const named = { displayName: displayNameOf(draft), externalId: draft.externalId };
  const isRenamed = named.displayName !== row.displayName || named.externalId !== row.externalId;
  if (isRenamed) await rename(work, tenantId, row.id, named);
  const moved = await moveMembers(work, { tenantId, id: row.id }, { from: known.members, to: draft.members });
  if (!isRenamed && moved.length === 0) return;
  await sql`
    update scim_groups set updated_at = ${work.now.toISOString()}::timestamptz
    where id = ${row.id}::uuid`.execute(work.db);
  const all = isRenamed ? new Set([...moved, ...draft.members]) : moved;
  await followRoles(work, tenantId, { before: row, after: named, all });
};

const rename = async (
  work: Work,
  tenantId: string,
  id: string,
  { displayName, externalId }: Named,
): Promise<void> => {
  await requireFreeName(work, tenantId, { displayName, exceptId: id });
  await sql`
    update scim_groups set display_name = ${displayName}, external_id = ${externalId}
    where id = ${id}::uuid`.execute(work.db);
  await record(work, tenantId, { id, action: "scim_group.updated", data: { displayName, externalId } });
};

/** Deletes a group; the roles of its members follow. @throws NOT_FOUND, OtherVersion */
export const deleteScimGroup = async (work: Work, scope: ScimScope, change: Change): Promise<void> => {
  const { tenantId } = scope;
  const { row, draft } = await lockGroup(work, scope, change);
  await sql`delete from scim_groups where id = ${row.id}::uuid`.execute(work.db);
  const data = { displayName: row.displayName, externalId: row.externalId };
  await record(work, tenantId, { id: row.id, action: "scim_group.deleted", data });
  await followRoles(work, tenantId, { before: row, all: draft.members });
};
