import type { Work } from "../../../src/domain/kernel/work.ts";
import { must } from "../http/client.ts";
import { madeForEach, madeOnce } from "../made.ts";
import { type Answer, aTenant, startApp } from "./app.ts";

export const TENANT = "/api/v1/tenant";

/** A tenant of each test's own, with what tests of tenants do. */
export const ownTenant = () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  return {
    api,
    tenant,
    get: async (token = tenant.token) => must(await api.get(TENANT, { token }), 200),
    patch: (body: unknown, token = tenant.token): Promise<Answer> => api.patch(TENANT, body, { token }),
    post: (path: string, body: unknown = {}, token = tenant.token): Promise<Answer> =>
      api.post(`${TENANT}/${path}`, body, { token }),
    /** What its audit log tells. */
    actions: async (): Promise<string[]> =>
      must(await api.get("/api/v1/audit-log", { token: tenant.token }), 200).data.map(
        ({ action }: { action: string }) => action,
      ),
    /** As a super-admin's operation does it. */
    asAdmin: <T>(run: (work: Work) => Promise<T>): Promise<T> =>
      api.app.transactAs({ role: "accounts" })(run),
    useKey: (): Promise<Answer> => api.get("/api/v1/projects", { key: tenant.key }),
    useToken: (): Promise<Answer> => api.get("/api/v1/projects", { token: tenant.token }),
  };
};
