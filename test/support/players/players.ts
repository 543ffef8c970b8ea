import { randomUUID } from "node:crypto";
import type { sql } from "kysely";
import type { Answer, Tenant, TestApp } from "../app/app.ts";
import { must } from "../http/client.ts";
import { jobResult } from "../app/processed.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- tests read bodies of every shape
type Body = any;

/** Calls about players in one tenant's project, with its key. */
export const playersOf = (api: TestApp, { key, projectId }: Tenant) => {
  const call = {
    get: (path: string): Promise<Answer> => api.get(`/api/v1${path}`, { key }),
    post: (path: string, body: unknown): Promise<Answer> => api.post(`/api/v1${path}`, body, { key }),
    patch: (path: string, body: unknown): Promise<Answer> => api.patch(`/api/v1${path}`, body, { key }),
    delete: (path: string): Promise<Answer> => api.delete(`/api/v1${path}`, { key }),
  };
  const read = async (ref: string): Promise<Body> => must(await call.get(`/players/${ref}`), 200);
  return {
    ...call,
    projectId,
    read,
    /** Makes a player; answers id and external id. */
    add: async (more: object = {}): Promise<{ id: string; ext: string }> => {
      const ext = `user-${randomUUID()}`;
      const { id } = must(await call.post("/players", { externalUserId: ext, ...more }), 201);
      return { id, ext };
    },
    xp: async (id: string, amount: number): Promise<void> =>
      void must(await call.post(`/players/${id}/xp`, { amount }), 201),
    /** Grants a currency. */
    grant: async (id: string, currency: string, amount: number, more: object = {}): Promise<void> => {
      const body = { amount, reason: "test", ...more };
      must(await call.post(`/players/${id}/balances/${currency}/grant`, body), 201);
    },
    merge: (target: string, source: string, more: object = {}): Promise<Answer> =>
      call.post(`/players/${target}/merge`, { sourcePlayerId: source, ...more }),
    /** Sends an event and waits until it is processed. */
    track: async (externalUserId: string, eventType: string, more: object = {}): Promise<Body> =>
      must(await call.post("/events?wait=true", { externalUserId, eventType, ...more }), 200),
    define: async (kind: string, document: object): Promise<void> =>
      void must(await call.post(`/${kind}`, document), 201),
    /** Waits for a job's end and answers its result. */
    resultOf: (jobId: string): Promise<Body> => jobResult(api, { key }, jobId),
    query: async <T>(statement: ReturnType<typeof sql<T>>): Promise<T[]> =>
      (await api.app.transact(({ db }) => statement.execute(db))).rows,
  };
};

export type Players = ReturnType<typeof playersOf>;
