import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { outageOf } from "../domain/kernel/outages.ts";
import { probeRedis, throwRefusedAddress, throwRefusedPassword } from "./probe.ts";

/** How long a starting process waits for its dependencies, and the pause between two attempts, in ms. */
const REACH_MAX_MS = 60_000;
const REACH_EVERY_MS = 1_000;

type Dependency = {
  name: string;
  setting: string;
  ping: () => Promise<unknown>;
  /** Says why it does not answer. @throws Error when waiting is of no use */
  explain: (error: unknown) => Promise<string>;
};

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Waits until a dependency answers: it may be starting too. @throws Error naming the setting */
const reach = async ({ name, setting, ping, explain }: Dependency, log: Logger): Promise<void> => {
  const startedMs = performance.now();
  for (;;) {
    try {
      await ping();
      return;
    } catch (cause) {
      const reason = await explain(cause);
      const waitedMs = Math.round(performance.now() - startedMs);
      if (waitedMs > REACH_MAX_MS) {
        throw new Error(`${name} does not answer (${reason}). Is it running, and is ${setting} right?`, {
          cause,
        });
      }
      log.warn({ waitedMs, reason }, `waiting for ${name} (${setting})`);
      await delay(REACH_EVERY_MS);
    }
  }
};

const OF_OUTAGES: Readonly<Record<string, string>> = {
  database: "PostgreSQL (DATABASE_URL)",
  redis: "Redis (REDIS_URL)",
};

/** Returns the error of a start, which names the dependency that has failed since it was reached. */
export const namingDependency = (error: unknown): unknown => {
  const name = OF_OUTAGES[outageOf(error) ?? ""];
  const message = messageOf(error);
  if (name === undefined || /_URL\b/.test(message)) return error;
  return new Error(`${name} failed during the start: ${message}`, { cause: error });
};

/** Waits until PostgreSQL answers. @throws Error when it does not, or refuses the database or the user */
export const reachPostgres = (url: string, ping: () => Promise<unknown>, log: Logger): Promise<void> => {
  const explain = async (error: unknown): Promise<string> => {
    throwRefusedAddress(error, url);
    return messageOf(error);
  };
  return reach({ name: "PostgreSQL", setting: "DATABASE_URL", ping, explain }, log);
};

/** Waits until Redis answers. @throws Error when it does not, or refuses the password */
export const reachRedis = (url: string, ping: () => Promise<unknown>, log: Logger): Promise<void> => {
  // A command of the client fails with the number of attempts; a probe says why they fail.
  const explain = async (error: unknown): Promise<string> => {
    try {
      await probeRedis(url);
      return messageOf(error);
    } catch (reason) {
      throwRefusedPassword(reason);
      return messageOf(reason);
    }
  };
  return reach({ name: "Redis", setting: "REDIS_URL", ping, explain }, log);
};
