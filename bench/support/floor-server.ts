// The least that a read or a write can cost: one prepared statement, or one command of Redis, behind bare
// HTTP and behind Express. No credentials, limits, checks, names or log.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { Redis } from "ioredis";
import { openPostgres } from "../../src/platform/database.ts";
import { poolOf } from "./box.ts";

const [projectId, periodId] = process.argv.slice(2);
const CONNECTIONS = 8;
const KEY = `${process.env["REDIS_NAMESPACE"]}:floor`;
const MEMBERS = 10_000;
const PLACES = 50;
const database = await openPostgres(process.env["DATABASE_URL"]!, CONNECTIONS);
const pool = (await poolOf(database)) as unknown as {
  query(query: { name: string; text: string; values: unknown[] }): Promise<{ rows: unknown[] }>;
};
const redis = new Redis(process.env["REDIS_URL"]!);

const select = async () => {
  const text = `select p.id, p.external_user_id, p.display_name, e.rank_score
    from leaderboard_entries e join players p on p.project_id = e.project_id and p.id = e.player_id
    where e.project_id = $1 and e.period_id = $2
      and e.player_id >= '00000000-0000-7000-8000-000000000000' order by e.player_id limit ${PLACES}`;
  return (await pool.query({ name: "floor_select", text, values: [projectId, periodId] })).rows;
};

let turn = 0;
const update = async () => {
  const id = (turn++ % MEMBERS).toString(16).padStart(12, "0");
  const text = `update leaderboard_entries set rank_tie = rank_tie + 1
    where project_id = $1 and period_id = $2 and player_id = $3`;
  const values = [projectId, periodId, `00000000-0000-7000-8000-${id}`];
  await pool.query({ name: "floor_update", text, values });
  return { updated: true };
};

const range = () => redis.zrevrange(KEY, 0, PLACES - 1, "WITHSCORES");

for (let from = 0; from < MEMBERS; from += 1_000)
  await redis.zadd(KEY, ...Array.from({ length: 1_000 }, (_, i) => [from + i, `player-${from + i}`]).flat());

const app = express();
for (const [path, work] of Object.entries({ select, update, range }))
  app.get(`/${path}`, (_request, response, next) => {
    work().then((answer: unknown) => response.json(answer), next);
  });
const bare = (_request: IncomingMessage, response: ServerResponse): void => {
  void select().then((rows) => {
    const body = Buffer.from(JSON.stringify(rows));
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": body.length }).end(body);
  });
};
const listen = (server: ReturnType<typeof createServer>): Promise<number> =>
  new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
process.send?.({ express: await listen(createServer(app)), bare: await listen(createServer(bare)) });
for (const event of ["SIGTERM", "disconnect"]) process.on(event, () => process.exit(0));
