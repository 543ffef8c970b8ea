import { sql } from "kysely";
import { type Answer, aTenant, type Tenant, type TestApp } from "./app.ts";
import { must } from "../http/client.ts";

/** A tenant's project with shorthands for what tests of it do, by its key unless another one is given. */
export type Game = {
  tenant: Tenant;
  get(path: string, key?: string): Promise<Answer>;
  post(path: string, body?: unknown, key?: string): Promise<Answer>;
  patch(path: string, body: unknown, key?: string): Promise<Answer>;
  remove(path: string, body?: unknown, key?: string): Promise<Answer>;
  /** Posts what must be made, and answers it. */
  make(path: string, body: unknown): Promise<Answer["body"]>;
  /** The id of a new player. */
  player(externalUserId: string): Promise<string>;
  /** Sends an event and waits until it has been processed. */
  track(externalUserId: string, eventType: string, properties?: object): Promise<void>;
  /** Type and data of a player's lines in the outbox, oldest first, without player.created. */
  told(playerId: string): Promise<[type: string, data: Record<string, unknown>][]>;
  /** Gives a player a status that no operation here gives. */
  setStatus(playerId: string, status: string): Promise<void>;
};

/** Calls with a tenant's key, unless another one is given; the key is the one that the tenant has by then. */
export const callsBy = (api: TestApp, tenant: Pick<Tenant, "key">) => ({
  get: (path: string, key = tenant.key): Promise<Answer> => api.get(`/api/v1${path}`, { key }),
  post: (path: string, body: unknown = {}, key = tenant.key): Promise<Answer> =>
    api.post(`/api/v1${path}`, body, { key }),
  patch: (path: string, body: unknown, key = tenant.key): Promise<Answer> =>
    api.patch(`/api/v1${path}`, body, { key }),
  remove: (path: string, body?: unknown, key = tenant.key): Promise<Answer> =>
    api.delete(`/api/v1${path}`, { key, ...(body === undefined ? {} : { body }) }),
});

export const aGame = async (api: TestApp): Promise<Game> => {
  const tenant = await aTenant(api);
  const { projectId } = tenant;
  const game: Game = {
    tenant,
    ...callsBy(api, tenant),
    make: async (path, body) => must(await game.post(path, body), 201),
    player: async (externalUserId) => (await game.make("/players", { externalUserId })).id,
    track: async (externalUserId, eventType, properties = {}) => {
      const answer = await game.post("/events?wait=true", { externalUserId, eventType, properties });
      if (answer.body.status !== "PROCESSED") throw new Error(JSON.stringify(answer.body));
    },
    told: async (playerId) => {
      const rows = await api.sql<{ type: string; data: Record<string, unknown> }>`
        select type, data from outbox where player_id = ${playerId} and type <> 'player.created'
        order by player_seq`;
      return rows.map(({ type, data }) => [type, data]);
    },
    setStatus: async (playerId, status) => {
      await api.sql`update players set status = ${status}
        where project_id = ${projectId} and id = ${playerId}`;
    },
  };
  return game;
};

// oxlint-disable-next-line typescript/no-explicit-any -- what is told depends on the action
type Audited = { action: string; actor: string; tenant: string; data: any };

/** What the audit log says about a target, oldest first. */
export const auditOf = ({ app }: TestApp, targetId: string): Promise<Audited[]> =>
  app.transact(async ({ db }) => {
    const found = await sql<Audited>`
      select action, actor, tenant_id as tenant, data from audit_log
      where target_id = ${targetId} order by created_at, id`.execute(db);
    return found.rows;
  });
