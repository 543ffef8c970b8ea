import { audit } from "../accounts/audit/audit.ts";
import type { Json } from "../kernel/events/events.ts";
import type { Work } from "../kernel/work.ts";

/** Records an action on an event or event type in the audit log of the tenant. */
export const auditEvent = async (
  work: Work,
  action: string,
  { id, ...data }: Json & { id: string; projectId: string },
): Promise<void> => {
  const caller = work.by?.caller;
  if (caller?.kind !== "user" && caller?.kind !== "key") return;
  const target = { type: action.split(".", 1)[0]!, id };
  await audit(work, { action, target, tenantId: caller.tenantId, data });
};
