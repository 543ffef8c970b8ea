import type { App } from "../app.ts";
import { type Read, readBy } from "../domain/kernel/read.ts";
import type { RowScope, Transact } from "../domain/kernel/work.ts";

const scopeOf = (projectId: string): RowScope => ({ role: "web", tenantId: "", projectIds: [projectId] });

/** Transactions that see one project and nothing of its tenant: the scope of everything that rooms show. */
export const transactIn = ({ transactAs }: App, projectId: string): Transact =>
  transactAs(scopeOf(projectId));

/** Single statements that see as much. */
export const readIn = (app: App, projectId: string): Read =>
  app.readAs?.(scopeOf(projectId)) ?? readBy(transactIn(app, projectId));
