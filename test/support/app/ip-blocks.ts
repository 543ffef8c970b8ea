import { sql } from "kysely";
import type { TestApp } from "./app.ts";
import { from } from "../http/limit-headers.ts";

export const aNetwork = (): string => {
  const group = () => Math.floor(Math.random() * 65_536).toString(16);
  return `2001:db8:${group()}:${group()}`;
};

export const pathOf = (ip: string, suffix = ""): string =>
  `/api/v1/admin/rate-limits/ip/${encodeURIComponent(ip)}${suffix}`;

/** What a super-admin does with addresses, and what the addresses see of it. */
export const blocksBy = (api: TestApp, token: string) => ({
  status: (ip: string, query = "") => api.get(pathOf(ip) + query, { token }),
  block: (ip: string, body: object = { reason: "Scraping" }) =>
    api.post(pathOf(ip, "/block"), body, { token }),
  unblock: (ip: string) => api.delete(pathOf(ip, "/block"), { token }),
  visit: (ip: string) => api.get("/api/v1/limits", from(ip)),
  /** Action, actor and tenant of what the audit log has about a target. */
  audited: (target: string) =>
    api.app.transact(async ({ db }) => {
      const { rows } = await sql<{ action: string; actor: string; tenant_id: string | null }>`
        select action, actor, tenant_id from audit_log where target_id = ${target} order by id`.execute(db);
      return rows.map(({ action, actor, tenant_id }) => [action, actor, tenant_id]);
    }),
});
