import type { Work } from "../../kernel/work.ts";
import { auditAll } from "./audit.ts";

export type Definition = { projectId: string; id: string; key?: string };

/** An action on a definition, such as `badge.created`. */
export type DefinitionChange = { action: string; definition: Definition };

/**
 * Records a change of a project's definition in the log of its tenant. Changes by the server itself (the
 * demo) have no author and are not recorded.
 */
export const auditDefinition = (work: Work, action: string, definition: Definition): Promise<void> =>
  auditDefinitions(work, [{ action, definition }]);

/** As `auditDefinition`, for many changes in a few statements. */
export const auditDefinitions = async (work: Work, changes: readonly DefinitionChange[]): Promise<void> => {
  const caller = work.by?.caller;
  if (caller?.kind !== "user" && caller?.kind !== "key") return;
  const { tenantId } = caller;
  const entries = changes.map(({ action, definition: { projectId, id, key } }) => {
    const data = { projectId, ...(key === undefined ? {} : { key }) };
    return { action, target: { type: action.split(".", 1)[0]!, id }, tenantId, data };
  });
  await auditAll(work, entries);
};
