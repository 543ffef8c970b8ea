import type { Work } from "../../kernel/work.ts";
import { auditAll } from "./audit.ts";

export type Definition = { projectId: string; id: string; key?: string };

/** What was done to a definition: `badge.created`. */
export type DefinitionChange = { action: string; definition: Definition };

/**
 * Writes who changed a definition of a project, into the log of their tenant. What the server does by itself
 * (the demo) has nobody to name and writes nothing.
 */
export const auditDefinition = (work: Work, action: string, definition: Definition): Promise<void> =>
  auditDefinitions(work, [{ action, definition }]);

/** As `auditDefinition`, of many changes in a few statements. */
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
