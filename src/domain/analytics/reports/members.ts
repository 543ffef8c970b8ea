import { sql } from "kysely";
import { EVERY_ROLE } from "../../kernel/access.ts";
import type { Role } from "../../kernel/caller.ts";
import { DomainError } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";

const listOf = (ids: readonly string[]) => sql`
  (select value::uuid from json_array_elements_text(${JSON.stringify(ids)}::json))`;

/** Returns those ids that are of members of the project's tenant. */
export const membersAmong = async (
  { db }: Work,
  projectId: string,
  ids: readonly string[],
): Promise<string[]> => {
  if (ids.length === 0) return [];
  const { rows } = await sql<{ id: string }>`
    select u.id from users u join projects p on p.tenant_id = u.tenant_id
    where p.id = ${projectId}::uuid and u.id in ${listOf(ids)}`.execute(db);
  const known = new Set(rows.map(({ id }) => id));
  return ids.filter((id) => known.has(id));
};

/** @throws DomainError VALIDATION_ERROR for ids that are not those of members of the project's tenant */
export const checkMembers = async (work: Work, projectId: string, ids: readonly string[]): Promise<void> => {
  const known = new Set(await membersAmong(work, projectId, ids));
  const details = ids.flatMap((id, i) =>
    known.has(id) ? [] : [{ field: `schedule.mailTo.${i}`, message: "is not a member of the team" }],
  );
  const [first] = details;
  if (first) throw new DomainError("VALIDATION_ERROR", `${first.field}: ${first.message}`, { details });
};

/** A member who is told of a report. */
export type Recipient = { id: string; email: string };

type Row = Recipient & { role: Role };

/** Returns those of a tenant's members who may read analytics now, and sign in to do so. */
export const readersAmong = async (
  { db }: Work,
  tenantId: string,
  ids: readonly string[],
): Promise<Recipient[]> => {
  if (ids.length === 0) return [];
  const { rows } = await sql<Row>`
    select u.id, u.email, u.role from users u join tenants t on t.id = u.tenant_id
    where u.tenant_id = ${tenantId}::uuid and u.id in ${listOf(ids)}
      and u.status = 'ACTIVE' and u.disabled_at is null
      and t.approval_status = 'APPROVED' and t.deleted_at is null
    order by u.id`.execute(db);
  return rows.filter(({ role }) => EVERY_ROLE.includes(role)).map(({ id, email }) => ({ id, email }));
};
