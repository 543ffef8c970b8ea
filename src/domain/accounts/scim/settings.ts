import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { lockTenant } from "../tenants/lock-tenant.ts";
import { ROLES, type Role } from "../../kernel/caller.ts";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";

/** Roles that groups can give, the one first that counts for a person of several groups. */
export const SCIM_ROLES = ROLES.filter((role): role is ScimRole => role !== "OWNER");
export type ScimRole = Exclude<Role, "OWNER">;

/** Groups that give roles. */
export const SCIM_MAPPINGS_MAX = 100;

/** A group of the identity provider, named by either, and the role of its members. */
export type GroupRole = {
  displayName?: string | undefined;
  externalId?: string | undefined;
  role: ScimRole;
};

export type ScimSettings = { defaultRole: ScimRole; groups: GroupRole[] };

/** Returns a tenant's settings, or those of one that has none yet. */
export const readSettings = async ({ db }: Work, tenantId: string): Promise<ScimSettings> => {
  const { rows } = await sql<ScimSettings>`
    select default_role as "defaultRole", group_roles as groups from scim_settings
    where tenant_id = ${tenantId}::uuid`.execute(db);
  return rows[0] ?? { defaultRole: "VIEWER", groups: [] };
};

/** A group as a mapping names it. */
export type NamedGroup = { displayName: string; externalId: string | null };

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
