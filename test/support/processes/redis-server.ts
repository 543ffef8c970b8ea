import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { Redis } from "ioredis";
import { eventually } from "../eventually.ts";
import { freePort } from "./process.ts";

/** A Redis of a test's own that keeps nothing. */
export type RedisServer = {
  url: string;
  /** Ends it the hard way. */
  kill(): Promise<void>;
  /** Starts it again, empty, at the same port. */
  start(): Promise<void>;
};

const servers = new Set<ChildProcess>();
process.on("exit", () => {
  for (const server of servers) server.kill("SIGKILL");
});

/** Starts a Redis at a free port, which asks for a password where one is given. */
export const startRedis = async ({ password }: { password?: string } = {}): Promise<RedisServer> => {
  const port = await freePort();
  let server: ChildProcess;
  const start = async (): Promise<void> => {
    const settings = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    if (password !== undefined) settings.push("--requirepass", password);
    server = spawn("redis-server", settings, { stdio: "ignore", cwd: "/tmp" });
    servers.add(server);
    const redis = new Redis(port, "127.0.0.1", {
      password: password!,
      lazyConnect: true,
      retryStrategy: null,
    });
    redis.on("error", () => undefined);
    await eventually(async () => {
      if (redis.status !== "ready") await redis.connect();
      return (await redis.ping()) === "PONG";
    });
    redis.disconnect();
  };
  await start();
  return {
    url: `redis://127.0.0.1:${port}`,
    start,
    kill: async () => {
      const ended = once(server, "exit");
      server.kill("SIGKILL");
      await ended;
      servers.delete(server);
    },
  };
};
