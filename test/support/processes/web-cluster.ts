import { aTenant, type Tenant } from "../app/app.ts";
import { type Balancer, startBalancer } from "./balancer.ts";
import { type Client, clientOf } from "../http/client.ts";
import { type Services, startServices } from "./services.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "./process.ts";

export type Web = Laurel & { port: number; client: Client };

/** Web processes behind one port, and a worker. */
export type WebCluster = {
  webs: Web[];
  worker: Laurel;
  /** Through the port that all share. */
  api: Client;
  balancer: Balancer;
  tenant: Tenant;
  services: Services;
  /** Starts one more web process behind the port, with settings of its own if need be. */
  add(env?: Record<string, string>): Promise<Web>;
  /** Starts one more worker. */
  addWorker(): Promise<Laurel>;
  /** Ends one, and no longer sends clients to it. */
  kill(web: Web): Promise<void>;
  /** A number of one process, by the name and labels of its metric; 0 when it is not there. */
  metric(web: Web, name: string): Promise<number>;
  stop(): Promise<void>;
};

const metricOf = async ({ client }: Web, name: string): Promise<number> => {
  const page = await (await fetch(`${client.url}/metrics`)).text();
  const line = page.split("\n").find((text) => text.startsWith(`${name} `));
  return Number(line?.split(" ").at(-1) ?? 0);
};

/** @param env settings of all processes, such as another REDIS_URL */
export const startWebCluster = async (
  count: number,
  env: Record<string, string> = {},
): Promise<WebCluster> => {
  const directory = await temporaryDir();
  const services = await startServices(directory.path);
  const shared = {
    ...services.env,
    PUBLIC_URL: "http://localhost",
    TRUSTED_PROXIES: "127.0.0.1/32",
    ...env,
  };
  const webs: Web[] = [];
  const balancer = await startBalancer([]);
  const aim = (): void => balancer.aim(webs.map(({ port }) => port));
  const add = async (own: Record<string, string> = {}): Promise<Web> => {
    const port = await freePort();
    const process = await startProcess(["serve"], { ...shared, ...own, ROLES: "web", PORT: String(port) });
    const web = { ...process, port, client: clientOf(`http://127.0.0.1:${port}`) };
    webs.push(web);
    aim();
    return web;
  };
  const remove = async (web: Web): Promise<void> => {
    webs.splice(webs.indexOf(web), 1);
    aim();
    await kill(web);
  };
  // The first one makes the tables and the secrets.
  await add();
  const workers: Laurel[] = [];
  const addWorker = async (): Promise<Laurel> => {
    const started = await startProcess(["worker"], { ...shared, ROLES: "worker" });
    workers.push(started);
    return started;
  };
  const [worker] = await Promise.all([addWorker(), ...Array.from({ length: count - 1 }, () => add())]);
  const api = clientOf(balancer.url);
  return {
    webs,
    worker,
    api,
    balancer,
    tenant: await aTenant(api),
    services,
    add,
    addWorker,
    kill: remove,
    metric: metricOf,
    stop: async () => {
      while (webs.length > 0) await remove(webs[0]!);
      for (const one of workers) await kill(one);
      await balancer.close();
      await services.remove();
      await directory.remove();
    },
  };
};
