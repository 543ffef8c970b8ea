import { type App, createApp } from "../../../src/app.ts";
import { createLog } from "../../../src/log.ts";
import { createMetrics } from "../../../src/metrics.ts";
import { openPlatform } from "../../../src/platform.ts";
import { type Services, startServices } from "../processes/services.ts";
import { kill, type Laurel, startProcess, temporaryDir } from "../processes/process.ts";
import { hookConfig, hookStore, type HookSite, type WebhookApp } from "./webhook-app.ts";

/** Worker processes on a database of their own, and an app beside them that runs no jobs. */
export type WebhookCluster = Omit<WebhookApp, "happen" | "pass"> & {
  app: App;
  services: Services;
  /** @param env settings of this one alone */
  startWorker(env?: Record<string, string>): Promise<Laurel>;
  /** Commits events, so many at once; a worker relays them. */
  commit(site: HookSite, events: readonly object[]): Promise<void>;
};

/** @param env settings of all processes, such as another REDIS_URL */
export const openWebhookCluster = async (env: Record<string, string> = {}): Promise<WebhookCluster> => {
  const directory = await temporaryDir();
  const services = await startServices(directory.path);
  const shared = { ...services.env, WEBHOOKS_ALLOW_LOCAL: "on", EMAIL_MODE: "log", ...env };
  const config = hookConfig(shared);
  const log = createLog({ logLevel: "silent" });
  const platform = await openPlatform(config, log);
  await platform.database.migrateUp();
  const app = createApp({ config, log, metrics: createMetrics(), platform });
  const { happen: _happen, ...store } = hookStore(app);
  const workers: Laurel[] = [];
  return {
    app,
    services,
    ...store,
    startWorker: async (own = {}) => {
      const secrets = { ENCRYPTION_KEYS: config.secrets.encryptionKeys.join(",") };
      const worker = await startProcess(["worker"], { ...shared, ...secrets, ...own });
      workers.push(worker);
      return worker;
    },
    commit: async ({ projectId }, events) => {
      await app.transact(async (work) => {
        for (const data of events) work.emit(projectId, "custom.thing" as never, data as never);
      });
    },
    close: async () => {
      for (const worker of workers) if (worker.child.exitCode === null) await kill(worker);
      await app.queue.close();
      await app.webhookSender.close();
      await platform.close();
      await services.remove();
      await directory.remove();
    },
  };
};
