// The servers that ours is compared with: nothing but the broadcast. Arguments: which one, and its port.
import { createPublicKey } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server as HttpServer } from "node:http";
import { Room, Server as ColyseusServer } from "@colyseus/core";
import { RedisDriver } from "@colyseus/redis-driver";
import { RedisPresence } from "@colyseus/redis-presence";
import { schema, t } from "@colyseus/schema";
import { WebSocketTransport } from "@colyseus/ws-transport";
import { jwtVerify } from "jose";
import { Server as SocketServer } from "socket.io";
import { WebSocketServer } from "ws";

export type Floor = "ws" | "socket.io" | "colyseus" | "colyseus redis";
/** Sends every socket so many messages of so many bytes; only `ws` does. */
export type FloorOrder = { kind: "ticks"; ticks: number; bytes: number; everyMs: number };

const port = Number(process.argv[3]);

const listen = async (server: HttpServer): Promise<void> => {
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  process.send?.("ready");
};

const wsFloor = async (): Promise<void> => {
  const http = createServer();
  const server = new WebSocketServer({ server: http });
  server.on("connection", (socket) => {
    socket.on("error", () => undefined);
    socket.on("message", (data, isBinary) => {
      for (const client of server.clients) client.send(data, { binary: isBinary });
    });
  });
  process.on("message", ({ kind, ticks, bytes, everyMs }: FloorOrder) => {
    if (kind !== "ticks") return;
    const payload = Buffer.alloc(bytes, 1);
    let left = ticks;
    const timer = setInterval(() => {
      for (const client of server.clients) client.send(payload);
      if (--left > 0) return;
      clearInterval(timer);
      process.send?.({});
    }, everyMs);
  });
  await listen(http);
};

const socketFloor = async (): Promise<void> => {
  const http = createServer();
  const server = new SocketServer(http, { transports: ["websocket"], serveClient: false });
  server.on("connection", (socket) => {
    void socket.join("room");
    socket.on("say", (content: string) => server.to("room").emit("heard", content));
  });
  await listen(http);
};

const State = schema({ name: t.string().default("room") }, "BareState");

/** A room that verifies a token and says again what it hears; keys and limits as in the product. */
const colyseusFloor = async (): Promise<void> => {
  const key = createPublicKey(process.env["BENCH_PUBLIC_KEY"] ?? "");
  class BareRoom extends Room<{ state: InstanceType<typeof State> }> {
    override state = new State();
    override onCreate(): void {
      this.onMessage("say", (_client, message) => this.broadcast("heard", message));
    }
    static override async onAuth(token: string): Promise<unknown> {
      return (await jwtVerify(token, key, { algorithms: ["EdDSA"] })).payload;
    }
  }
  const http = createServer();
  const redisUrl = process.env["BENCH_REDIS_URL"];
  const server = new ColyseusServer({
    greet: false,
    gracefullyShutdown: false,
    transport: new WebSocketTransport({ server: http }),
    ...(redisUrl === undefined
      ? {}
      : { presence: new RedisPresence(redisUrl), driver: new RedisDriver(redisUrl) }),
  });
  server.define("bare", BareRoom);
  // Says by itself that it is ready.
  await server.listen(port, "127.0.0.1");
};

const FLOORS: Readonly<Record<Floor, () => Promise<void>>> = {
  ws: wsFloor,
  "socket.io": socketFloor,
  colyseus: colyseusFloor,
  "colyseus redis": colyseusFloor,
};

for (const event of ["SIGTERM", "disconnect"]) process.on(event, () => process.exit(0));
await FLOORS[process.argv[2] as Floor]();
