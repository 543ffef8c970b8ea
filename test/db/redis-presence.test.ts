import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { Redis } from "ioredis";
import { ResubscribingPresence } from "../../src/platform/redis-connection.ts";

/** Answers of a server that knows of no transaction: a cut has taken the commands before EXEC along. */
const answerTo = (command: string): string => {
  if (command === "EXEC") return "*0\r\n";
  if (command === "INFO") return "$9\r\nloading:0\r\n";
  return command === "HINCRBY" || command === "EXPIRE" ? "+QUEUED\r\n" : "+OK\r\n";
};

describe("presence over Redis", () => {
  let server: Server;
  const sockets = new Set<Socket>();
  before(async () => {
    server = createServer((socket) => {
      sockets.add(socket);
      socket.on("data", (data) => {
        for (const [, command = ""] of data.toString().matchAll(/\*\d+\r\n\$\d+\r\n(\w+)\r\n/g))
          socket.write(answerTo(command.toUpperCase()));
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
  });
  after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  it("rejects, and ends no process, where a transaction is answered with nothing", async () => {
    const { port } = server.address() as AddressInfo;
    const open = (): Redis => new Redis(port, "127.0.0.1");
    const warnings: unknown[] = [];
    const presence = new ResubscribingPresence({
      open,
      warn: (err: unknown) => void warnings.push(err),
    } as never);
    await assert.rejects(presence.hincrbyex("rooms", "player", 1, 10), /answered a transaction with nothing/);
    assert.equal(warnings.length, 1);
    presence.shutdown();
  });
});
