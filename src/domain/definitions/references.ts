import { sql } from "kysely";
import { type DomainError, invalid } from "../errors.ts";
import type { Work } from "../work.ts";

/** Reason of a 400 for a name that means nothing (yet): an import tries such a definition again later. */
export const UNKNOWN_REFERENCE = "UNKNOWN_REFERENCE";

/** A definition that `field` of a request names by its key. */
export type Reference = { field: string; kind: string; key: string };

export const unknownReference = ({ field, kind, key }: Reference): DomainError =>
  invalid(field, `there is no ${kind} ${key}`, UNKNOWN_REFERENCE);

/** @throws DomainError VALIDATION_ERROR naming the field when the project has no such definition */
export const checkActiveKey = async (
  { db }: Work,
  projectId: string,
  reference: Reference,
): Promise<void> => {
  const { kind, key } = reference;
  const found = await sql`
    select 1 from definitions
    where project_id = ${projectId} and kind = ${kind} and key = ${key} and status = 'ACTIVE'`.execute(db);
  if (found.rows.length === 0) throw unknownReference(reference);
};
