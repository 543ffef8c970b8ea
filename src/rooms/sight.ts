import type { App } from "../app.ts";
import type { Transact } from "../domain/kernel/work.ts";

/** Transactions that see one project and nothing of its tenant: all that a room ever shows. */
export const transactIn = ({ transactAs }: App, projectId: string): Transact =>
  transactAs({ role: "web", tenantId: "", projectIds: [projectId] });
