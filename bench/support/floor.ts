// The least that what is measured can cost: `node floor.ts http` is Express before one statement of
// PostgreSQL, with nothing checked; `node floor.ts socket` is a room of socket.io that says again what it
// hears, and `POST /say` says something in it. Sends its port when it is ready.
import { once } from "node:events";
import { createServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { Server as SocketServer } from "socket.io";
import { openPostgres } from "../../src/platform/database.ts";

type Body = Record<string, unknown>;
type Pool = { query(text: string, values?: unknown[]): Promise<{ rows: object[] }> };

const ROWS = 2_000;
const EVENTS = `create table floor_events
  (id uuid default gen_random_uuid(), player text, type text, properties jsonb, at timestamptz default now())`;
const SCORES = `create table floor_scores as
  select n as id, 'player-' || n as name, n as score from generate_series(1, ${ROWS}) n`;
const INSERT = `insert into floor_events (player, type, properties)
  select "externalUserId", "eventType", properties
  from json_to_recordset($1::json) as r("externalUserId" text, "eventType" text, properties jsonb)`;
const UPDATE = "update floor_scores set score = score + 1 where id = $1 returning score";
const SELECT = "select id, name, score from floor_scores where id > $1 order by id limit 50";

const http = async (): Promise<HttpServer> => {
  const database = await openPostgres(process.env["DATABASE_URL"]!, 8);
  const connection = database.em.getConnection() as unknown as { getNativeClient(): Promise<Pool> };
  const pool = await connection.getNativeClient();
  for (const text of [EVENTS, SCORES, "alter table floor_scores add primary key (id)"])
    await pool.query(text);
  const app = express().use(express.json({ limit: "1mb" }));
  let turn = 0;
  const answers = {
    "/insert": [INSERT, (body: Body) => [JSON.stringify(body["events"] ?? [body])]],
    "/update": [UPDATE, () => [1 + (turn++ % ROWS)]],
    "/select": [SELECT, () => [turn++ % (ROWS - 50)]],
  } as const;
  for (const [path, [text, values]] of Object.entries(answers))
    app.all(path, (request, response, next) => {
      const body = (request.body ?? {}) as Body;
      pool.query(text, values(body)).then(({ rows }) => response.json({ rows }), next);
    });
  return createServer(app);
};

const socket = async (): Promise<HttpServer> => {
  const server = createServer(
    express()
      .use(express.json())
      .post("/say", (request, response) => {
        sockets.to("room").emit("heard", request.body);
        response.json({});
      }),
  );
  const sockets = new SocketServer(server, { transports: ["websocket"], serveClient: false });
  sockets.on("connection", (one) => {
    void one.join("room");
    one.on("say", (content: unknown) => sockets.to("room").emit("heard", content));
  });
  return server;
};

const server = await (process.argv[2] === "http" ? http() : socket());
server.listen(0, "127.0.0.1");
await once(server, "listening");
for (const event of ["SIGTERM", "disconnect"]) process.on(event, () => process.exit(0));
process.send?.((server.address() as AddressInfo).port);
