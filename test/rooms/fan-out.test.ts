import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { type Client, ClientState } from "@colyseus/core";
import { WebSocketClient } from "@colyseus/ws-transport";
import { WebSocket, WebSocketServer } from "ws";
import { FanOut, FLUSH_BYTES, FramedSocket } from "../../src/rooms/frames.ts";
import { eventually } from "../support/eventually.ts";

const CLIENTS = 3;

const toldTo = (clients: readonly Client[]): FanOut =>
  new FanOut({ clients: () => clients, later: (delayMs, run) => void setTimeout(run, delayMs) });

describe("what a crowd is told at one moment", () => {
  let server: WebSocketServer;
  const clients: WebSocketClient[] = [];
  const heard: Buffer[][] = [];
  const sockets: WebSocket[] = [];

  before(async () => {
    server = new WebSocketServer({ port: 0, host: "127.0.0.1", WebSocket: FramedSocket });
    await once(server, "listening");
    server.on("connection", (socket: WebSocket) => {
      const client = new WebSocketClient(`client ${clients.length}`, socket);
      client.state = ClientState.JOINED;
      clients.push(client);
    });
    for (let n = 0; n < CLIENTS; n++) {
      const socket = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
      const own: Buffer[] = [];
      socket.on("message", (data: Buffer) => void own.push(data));
      heard.push(own);
      sockets.push(socket);
      await once(socket, "open");
      await eventually(() => clients.length === n + 1);
    }
  });
  after(() => {
    for (const socket of sockets) socket.terminate();
    server.close();
  });

  it("reaches each socket message by message, in order, as single sends around it do", async () => {
    const all: Client[] = clients;
    const sent = toldTo(all);
    const say = (text: string): void => all.forEach((client) => client.send("say", { text }));
    const texts = Array.from({ length: 50 }, (_, n) => "x".repeat(n * 40) + String(n));
    say("before");
    for (const text of texts) sent.add("say", { text });
    sent.flush();
    // Nothing is left to be told twice.
    sent.flush();
    say("after");
    const [first] = heard;
    await eventually(() => heard.every(({ length }) => length === texts.length + 2));
    for (const [n, text] of ["before", ...texts, "after"].entries())
      assert.ok(first![n]!.toString("latin1").endsWith(text), `message ${n}`);
    for (const own of heard) assert.deepEqual(own, first);
  });

  it("is written at once after a rest, else together with what follows or when much waits", async () => {
    const [one, two, three] = clients as [WebSocketClient, WebSocketClient, WebSocketClient];
    const sent = toldTo([one, two, three]);
    const before = heard[0]!.length;
    let writes = 0;
    const { ref } = one as unknown as { ref: FramedSocket };
    const write = ref.sendFrames.bind(ref);
    ref.sendFrames = (frames) => {
      writes++;
      return write(frames);
    };
    sent.soon();
    assert.equal(writes, 0);
    for (const text of ["first", "second", "third"]) {
      sent.add("say", { text });
      sent.soon();
    }
    assert.equal(writes, 1);
    await eventually(() => heard[0]!.length === before + 3);
    assert.equal(writes, 2);
    assert.deepEqual(heard[1]!.slice(-3), heard[0]!.slice(-3));
    sent.add("say", { text: "now" });
    sent.flush();
    sent.add("say", { text: "x" });
    sent.soon();
    assert.equal(writes, 3);
    sent.add("say", { text: "y".repeat(FLUSH_BYTES) });
    sent.soon();
    assert.equal(writes, 4);
    await eventually(() => heard[2]!.length === heard[0]!.length && heard[0]!.length === before + 6);
  });

  it("waits for who has not joined yet, and passes over who has gone", async () => {
    const [joining, , gone] = clients as [WebSocketClient, WebSocketClient, WebSocketClient];
    const before = heard.map(({ length }) => length);
    joining.state = ClientState.JOINING;
    joining._enqueuedMessages = [];
    gone.ref.close();
    const sent = toldTo(clients);
    for (const text of ["one", "two"]) sent.add("say", { text });
    sent.flush();
    await eventually(() => heard[1]!.length === before[1]! + 2);
    assert.deepEqual(joining._enqueuedMessages, heard[1]!.slice(-2));
    assert.deepEqual([heard[0]!.length, heard[2]!.length], [before[0], before[2]]);
  });
});
