import type { App } from "../app.ts";
import type { Transact } from "../domain/kernel/work.ts";

/** Transactions that see one project and nothing of its tenant: the scope of everything that rooms show. */
export const transactIn = ({ transactAs }: App, projectId: string): Transact =>
  transactAs({ role: "web", tenantId: "", projectIds: [projectId] });
