import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { Protocol } from "@colyseus/core";
import { encode } from "@colyseus/schema";
import { WebSocket, WebSocketServer } from "ws";
import { FramedSocket, isReadable } from "../../src/rooms/frames.ts";
import { eventually } from "../support/eventually.ts";

/** Around every border of the length of a frame. */
const LENGTHS = [0, 1, 125, 126, 127, 65_535, 65_536, 200_000];

describe("sockets that frame a message once", () => {
  let server: WebSocketServer;
  const heard = new Map<WebSocket, Buffer[]>();
  before(async () => {
    server = new WebSocketServer({ port: 0, host: "127.0.0.1", WebSocket: FramedSocket });
    await once(server, "listening");
    for (let n = 0; n < 3; n++) {
      const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
      heard.set(client, []);
      client.on(
        "message",
        (data: Buffer, isBinary: boolean) => void (isBinary && heard.get(client)!.push(data)),
      );
      await once(client, "open");
    }
  });
  after(() => {
    for (const client of heard.keys()) client.terminate();
    server.close();
  });

  it("send each message whole, in order and to all, also when it is written over later", async () => {
    const sent: Buffer[] = [];
    const scratch = new Uint8Array(LENGTHS.at(-1)!);
    for (const [n, length] of LENGTHS.entries()) {
      // The same bytes under another content each time, as an encoder's buffer would be.
      const message = scratch.subarray(0, length).fill(n + 1);
      sent.push(Buffer.from(message));
      for (const socket of server.clients) socket.send(message, { binary: true });
      await new Promise(setImmediate);
    }
    for (const got of heard.values()) {
      await eventually(() => got.length === sent.length);
      for (const [i, data] of got.entries()) assert.ok(data.equals(sent[i]!), `message ${i}`);
    }
  });

  it("leave to ws what is no binary message, and what is sent to a socket that closes", async () => {
    const [socket] = server.clients;
    const [client] = heard.keys();
    const text = once(client!, "message");
    socket!.send("text");
    assert.equal(String((await text)[0]), "text");
    socket!.close();
    socket!.send(Buffer.from("late"), { binary: true }, () => undefined);
    await once(client!, "close");
  });

  /** One more pair of a server's socket and its client's. */
  const aPair = async (): Promise<[FramedSocket, WebSocket]> => {
    const opened = once(server, "connection");
    const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
    await once(client, "open");
    return [((await opened) as [FramedSocket])[0], client];
  };

  it("are ended by what a listener throws, which is told and ends nothing else", async () => {
    for (const event of ["message", "ping", "close"]) {
      const [socket, client] = await aPair();
      const thrown: unknown[] = [];
      socket.watch = {
        isReadable: () => true,
        onThrow: (error, where) => thrown.push([String(error), where]),
      };
      socket.on(event, () => {
        throw new Error("boom");
      });
      const closed = once(client, "close");
      if (event === "message") client.send("x");
      else if (event === "ping") client.ping();
      else client.close();
      await closed;
      await eventually(() => thrown.length > 0);
      assert.deepEqual(thrown, [["Error: boom", event]]);
    }
  });

  it("hear nothing more once they close, and close for a message that is not wanted", async () => {
    const [socket, client] = await aPair();
    const got: string[] = [];
    socket.watch = { isReadable: (data) => data.toString() !== "bad", onThrow: assert.fail };
    socket.on("message", (data) => got.push((data as Buffer).toString()));
    const closed = once(client, "close");
    for (const text of ["good", "bad", "late"]) client.send(text);
    assert.equal((await closed)[0], 4002);
    assert.deepEqual(got, ["good"]);
  });
});

describe("requests of the SDK", () => {
  it("are read with any number that it has counted to, and not when they are cut off", () => {
    for (const id of [0, 127, 128, 255, 256, 65_535, 65_536, 2_147_483_647]) {
      const bytes: number[] = [Protocol.ROOM_REQUEST];
      const at = { offset: bytes.length };
      encode.number(bytes, id, at);
      encode.string(bytes, "quest.submit", at);
      assert.equal(isReadable(Buffer.from(bytes), true), true, `request ${id}`);
      assert.equal(isReadable(Buffer.from(bytes.slice(0, -1)), true), false, `request ${id}`);
    }
  });
});
