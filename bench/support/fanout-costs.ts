import { Redis } from "ioredis";
import { startCosts } from "./box.ts";
import type { Crowd, Server, Stage } from "./fanout-stage.ts";

/** CPU in seconds; `foreign` in cores: what no process of ours used. */
export type Spent = {
  wall: number;
  server: number;
  postgres: number;
  redis: number;
  worker: number;
  crowd: number;
  foreign: number;
};

/** The process of the Redis that the servers use; undefined when it is not on this machine. */
export const redisPid = async (url: string): Promise<number | undefined> => {
  const redis = new Redis(url);
  const info = await redis.info("server");
  redis.disconnect();
  const pid = Number(/process_id:(\d+)/.exec(info)?.[1]);
  return /127\.0\.0\.1|localhost/.test(url) ? pid : undefined;
};

/** Runs and counts the CPU of each that takes part by itself. */
export const spend = async <T>(
  { box, api, worker }: Stage,
  { server, crowd, redis }: { server: Server; crowd: Crowd; redis: number | undefined },
  run: () => Promise<T>,
): Promise<{ result: T; spent: Spent }> => {
  const pids = (children: readonly { pid: number }[]) => children.map(({ pid }) => pid);
  const [serverPids, crowdPids] = [pids(server.children), pids(crowd.children)];
  const redisPids = redis === undefined ? [] : [redis];
  const stop = await startCosts(box.pool, [...serverPids, ...crowdPids, ...redisPids, worker.pid, api.pid]);
  const result = await run();
  const { wall, byPid, postgres, foreign } = await stop();
  const sum = (of: readonly number[]) => of.reduce((total, pid) => total + byPid.get(pid)!, 0);
  const spent = {
    wall,
    server: sum(serverPids),
    postgres,
    redis: sum(redisPids),
    worker: sum([worker.pid]),
    crowd: sum(crowdPids),
    foreign: foreign / wall,
  };
  return { result, spent };
};
