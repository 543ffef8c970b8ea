import { sql } from "kysely";
import { DomainError } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { sharedDefinitions } from "./project-definitions.ts";

/** Reason of a 400 for an unknown name: an import retries such a definition later. */
export const UNKNOWN_REFERENCE = "UNKNOWN_REFERENCE";

/** A definition that `field` of a request names by its key. */
export type Reference = { field: string; kind: string; key: string };

/** A 400 for unknown names; it reports the first of them. */
export class UnknownReference extends DomainError {
  readonly missing: readonly Reference[];

  constructor(missing: readonly [Reference, ...Reference[]]) {
    const [{ field, kind, key }] = missing;
    const isDrafted = kind === "quest" || kind === "adventure";
    const message = `there is no ${isDrafted ? "published " : ""}${kind} ${key}`;
    super("VALIDATION_ERROR", `${field}: ${message}`, {
      details: [{ field, message }],
      reason: UNKNOWN_REFERENCE,
    });
    this.missing = missing;
  }
}

/** Whether the project has such a definition that is not archived. */
export const isActiveKey = async (
  work: Work,
  projectId: string,
  { kind, key }: Pick<Reference, "kind" | "key">,
): Promise<boolean> => {
  const definitions = sharedDefinitions(work, projectId);
  if (definitions) return definitions.get(kind, key) !== undefined;
  const found = await sql`
    select 1 from definitions
    where project_id = ${projectId} and kind = ${kind} and key = ${key} and status = 'ACTIVE'`.execute(
    work.db,
  );
  return found.rows.length > 0;
};

/** @throws UnknownReference naming the field when the project has no such definition */
export const checkActiveKey = async (work: Work, projectId: string, reference: Reference): Promise<void> => {
  if (!(await isActiveKey(work, projectId, reference))) throw new UnknownReference([reference]);
};
