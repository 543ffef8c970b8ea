import type { App } from "../app.ts";
import { readClock } from "../domain/accounts/projects/clock.ts";
import { findKnownProject } from "../domain/accounts/projects/resolve.ts";
import type { Caller } from "../domain/kernel/caller.ts";
import { readBy } from "../domain/kernel/read.ts";
import type { AnyRoute } from "./route.ts";

/** Operations that follow the server's clock in a sandbox too: nothing of theirs is what players have. */
const BY_SERVER_TIME: ReadonlySet<string> = new Set([
  "API keys",
  "Authentication",
  "Chat",
  "Chat moderation",
  "Email",
  "Jobs",
  "Limits",
  "Lobbies",
  "Projects",
  "Rate limits",
  "Team",
  "Tenant",
  "Webhooks",
]);

const isInSandbox = async (app: App, caller: Caller, projectId: string): Promise<boolean> => {
  if (caller.kind === "key") return caller.isTest;
  if (caller.kind !== "user") return false;
  const known = await findKnownProject(app.transactAs({ role: "accounts" }), projectId);
  return known?.isSandbox === true;
};

/**
 * Returns how far the clock of a request's project is ahead of the server's, in ms. Only a request to a
 * sandbox reads it: each anew, so that what comes after an advance is at the new time in every process.
 */
export const aheadOf = async (
  app: App,
  { tag }: AnyRoute,
  { caller, projectId }: { caller: Caller; projectId: string },
): Promise<number> => {
  if (projectId === "" || BY_SERVER_TIME.has(tag)) return 0;
  if (caller.kind === "anonymous" || caller.kind === "admin") return 0;
  if (!(await isInSandbox(app, caller, projectId))) return 0;
  const scope = { role: "web", tenantId: caller.tenantId, projectIds: [projectId] } as const;
  const read = app.readAs?.(scope) ?? readBy(app.transactAs(scope));
  return (await readClock(read, projectId)).clockAheadMs;
};
