import type { Work } from "../work.ts";
import { audit } from "./audit.ts";

export type Definition = { projectId: string; id: string; key?: string };

/**
 * Writes who changed a definition of a project, into the log of their tenant. What the server does by itself
 * (the demo) has nobody to name and writes nothing.
 */
export const auditDefinition = async (
  work: Work,
  action: string,
  { projectId, id, key }: Definition,
): Promise<void> => {
  const caller = work.by?.caller;
  if (caller?.kind !== "user" && caller?.kind !== "key") return;
  const data = { projectId, ...(key === undefined ? {} : { key }) };
  const type = action.split(".", 1)[0]!;
  await audit(work, { action, target: { type, id }, tenantId: caller.tenantId, data });
};
