import { sql } from "kysely";
import type { App } from "../../../src/app.ts";
import { aKey, type Answer, aTenant, type Tenant } from "./app.ts";
import { analyticsExport } from "../../../src/domain/analytics/exports/export-job.ts";
import { type Client, must } from "../http/client.ts";
import { failed } from "../domain/domain.ts";
import { aJob } from "./jobs.ts";
import { boardDefinition, ruleDocument, unique, webhookBody } from "../operations/bodies.ts";

/** A tenant's project and makers of fresh things in it. */
export type Side = {
  tenant: Tenant;
  /** A draft, taken through the steps, such as publish. */
  rule(...steps: readonly string[]): Promise<string>;
  board(): Promise<string>;
  /** One of XP, which catches up when it resumes. */
  pausedBoard(): Promise<string>;
  /** A board's id and a player who has a score on it. */
  entry(): Promise<{ board: string; player: string }>;
  player(): Promise<string>;
  event(): Promise<string>;
  /** A player made by an event, which has been processed. */
  playerOf(event: object): Promise<string>;
  /** An event whose evaluation is kept. */
  tracedEvent(): Promise<string>;
  putEventType(name: string, body: unknown): Promise<void>;
  /** An event that was given up. */
  failedEvent(): Promise<string>;
  /** A job that no worker comes to, or one that has succeeded. */
  job(status: "QUEUED" | "SUCCEEDED"): Promise<string>;
  apiKey(): Promise<string>;
  project(): Promise<string>;
  /** The path of the project's sandbox, which is made if there is none. */
  sandbox(): Promise<string>;
  /** A webhook of no event that the sweeps make, at an address where nobody answers. */
  webhook(): Promise<string>;
  /** The path of a delivery that has failed, under its webhook, which is not DISABLED. */
  delivery(): Promise<string>;
  /** Posts a body with the key; the id of what is made. */
  make(path: string, body: unknown): Promise<string>;
  /** Sends a request with the key. */
  send(method: "get" | "post" | "put" | "delete", path: string, body?: unknown): Promise<Answer>;
  /** The key of a definition that is not archived: the one made last, or a new one; there is room for few. */
  active(path: string, document: () => { key: string }): Promise<string>;
  /** Changes the project's settings. */
  set(settings: object): Promise<void>;
};

const id = (answer: Answer): string => must(answer, 201).id;

/** A server's client; without `app` the server is another process, and sides make no jobs. */
type Api = Client & { app?: App };

/** Deletes the tenant's older webhooks: a plan has room for few. */
const makeRoomForWebhooks = async (api: Api, token: string): Promise<void> => {
  const older = await api.get("/api/v1/webhooks?limit=20&page=3", { token });
  for (const one of older.body.data as { id: string }[])
    await api.delete(`/api/v1/webhooks/${one.id}`, { token });
};

export const aSide = async (api: Api, given?: Tenant): Promise<Side> => {
  const tenant = given ?? (await aTenant(api));
  const { key, token, projectId } = tenant;
  const post = (path: string, body: unknown) => api.post(`/api/v1${path}`, body, { key });
  const made = new Map<string, string>();
  const side: Side = {
    tenant,
    active: async (path, document) => {
      const last = made.get(path);
      const found = last === undefined ? undefined : await api.get(`/api/v1${path}/${last}`, { key });
      if (last !== undefined && found?.body.status === "ACTIVE") return last;
      const next = document();
      await side.make(path, next);
      made.set(path, next.key);
      return next.key;
    },
    make: async (path, body) => id(await post(path, body)),
    send: (method, path, body) =>
      method === "get" ? api.get(path, { key }) : api.request(method.toUpperCase(), path, { key, body }),
    set: async (settings) => {
      must(await api.patch(`/api/v1/projects/${projectId}`, { settings }, { token }), 200);
    },
    rule: async (...steps) => {
      const rule = id(await post("/rules", ruleDocument()));
      for (const step of steps) await post(`/rules/${rule}/${step}`, {});
      return rule;
    },
    board: async () => id(await post("/leaderboards", boardDefinition())),
    pausedBoard: async () => {
      const definition = { key: unique("board"), name: "Paused", metric: { source: "XP" } };
      const board = id(await post("/leaderboards", definition));
      await post(`/leaderboards/${board}/pause`, {});
      return board;
    },
    entry: async () => {
      const [board, player] = [await side.active("/leaderboards", boardDefinition), await side.player()];
      await post(`/leaderboards/${board}/scores`, { playerId: player, score: 5 });
      return { board, player };
    },
    player: async () => id(await post("/players", { externalUserId: unique("user") })),
    playerOf: async (event) => {
      const externalUserId = unique("user");
      await post("/events?wait=true", { ...event, externalUserId });
      return (await api.get(`/api/v1/players/ext:${externalUserId}`, { key })).body.id as string;
    },
    event: async () => {
      const sent = await post("/events?wait=true", { externalUserId: unique("user"), eventType: "seen" });
      return sent.body.eventId as string;
    },
    tracedEvent: async () => {
      await api.patch("/api/v1/project-settings", { traceSampling: { live: 1 } }, { key });
      return side.event();
    },
    putEventType: async (name, body) =>
      void (await api.request("PUT", `/api/v1/event-types/${name}`, { key, body })),
    failedEvent: async () => failed(api.app!, projectId, await side.event()),
    // Of a kind that everybody who sees any job may see.
    job: (status) => aJob(api.app!, projectId, status, analyticsExport),
    apiKey: async () =>
      id(await api.post(`/api/v1/projects/${projectId}/api-keys`, { name: "A key" }, { token })),
    webhook: async () => {
      await makeRoomForWebhooks(api, token);
      return id(await api.post("/api/v1/webhooks", webhookBody(), { token }));
    },
    delivery: async () => {
      const webhook = await side.webhook();
      const tested = await api.post(`/api/v1/webhooks/${webhook}/test`, {}, { token });
      const { deliveryId } = tested.body as { deliveryId: string };
      // A test is not sent again: it becomes a delivery as any other.
      await api.app?.transact(({ db }) =>
        sql`update webhook_deliveries set is_test = false
          where webhook_id = ${webhook} and id = ${deliveryId}`.execute(db),
      );
      return `/webhooks/${webhook}/deliveries/${deliveryId}`;
    },
    sandbox: async () => {
      const path = `/projects/${side.tenant.projectId}/sandbox`;
      await api.post(`/api/v1${path}`, {}, { token });
      return path;
    },
    project: async () => id(await api.post("/api/v1/projects", { name: "Another game" }, { token })),
  };
  return side;
};

/** A second project of the same tenant, with a key of its own; `tenant.projectId` is that project. */
export const aSecondSide = async (api: Api, { tenant }: Side): Promise<Side> => {
  const { token } = tenant;
  const projectId = id(await api.post("/api/v1/projects", { name: "Second game" }, { token }));
  return aSide(api, { ...tenant, projectId, key: await aKey(api, { token, projectId }) });
};

export const isOneTenant = (a: Side, b: Side): boolean => a.tenant.tenantId === b.tenant.tenantId;

/** What a side has one of, such as where a project has room for few: made when it is first asked for. */
export const onePerSide = <T>(make: (side: Side) => T): ((side: Side) => T) => {
  const made = new WeakMap<Side, T>();
  return (side) => {
    const known = made.get(side) ?? make(side);
    made.set(side, known);
    return known;
  };
};
